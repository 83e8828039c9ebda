"""Old releases check the versions of what they import; these steps need little of it."""

import sys
import types

unchecked = types.ModuleType("transformers.dependency_versions_check")
unchecked.dep_version_check = lambda *args, **kwargs: None
sys.modules["transformers.dependency_versions_check"] = unchecked
