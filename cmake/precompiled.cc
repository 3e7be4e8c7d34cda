// Nothing of its own: the target that makes the precompiled header needs one source.
