//! What is made of the project for its users: packages of the program, and the documentation as pages.

mod debian;
mod image;
mod packages;
mod pictures;
mod site;

pub(crate) use self::packages::make as packages;
pub(crate) use self::pictures::make as pictures;
pub(crate) use self::site::make as site;
