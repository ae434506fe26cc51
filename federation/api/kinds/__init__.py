"""The table of kinds of jobs: where each has its pods, what holds it back, how it says its end.

Contract: plain data and paths into JSON objects. `federation.jobs.kinds` does something with it;
policies and roles are generated from it.
"""
