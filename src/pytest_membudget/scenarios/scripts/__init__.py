"""Entries of ``*.membudget.yaml`` with ``script:``: a program that is run as it is."""
