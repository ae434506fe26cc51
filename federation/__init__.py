"""What the manager and the worker agent share: API objects, the pure core, job kinds, edges."""
