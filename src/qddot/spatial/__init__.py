"""Scalars, vectors, transforms, motions, forces, inertias and manifolds over any scalar."""
