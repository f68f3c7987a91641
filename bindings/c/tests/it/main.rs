//! The C interface and the Pascal unit, as programs use them: the tests compile programs with gcc and
//! fpc against the library, and run them.

mod c_programs;
mod header;
mod pascal;
mod support;
