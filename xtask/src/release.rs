//! What is made of the project for its users: packages of the program, and the documentation as pages.

mod debian;
mod image;
mod packages;

pub(crate) use self::packages::make as packages;
