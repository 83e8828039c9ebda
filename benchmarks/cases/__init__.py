"""Published configurations, each as an ordinary marked test."""
