//! This crate has no code. Its dependencies give each build of the program the same features of
//! third-party packages, so that an optional part compiles only its own packages.
