"""The Kubernetes objects as people write them: Kueue's group, and Fedq's own.

Contract: models, CRDs and admission policies only; no I/O. `convert` turns wire objects into the
types of `federation.core`.
"""
