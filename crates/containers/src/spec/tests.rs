//! Pure rules of rendering.
