"""The cache of estimates: an estimate is reused unless something that it depends on has changed."""
