//! Positional encodings and context extensions
