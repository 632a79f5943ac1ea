//! Manifest in, problems and defaults out.
