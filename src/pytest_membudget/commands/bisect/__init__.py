"""``membudget bisect``: the first commit, or release of a package, with which tests take more memory."""
