//! The work every contender of the ORM benchmark does, so that only the layer under test differs.
//!
//! A contender implements [`Contender`] and its `main` calls [`run`]. One process measures one
//! [`Setting`] at one number of rows: the driver opens the contender, times each [`Figure`], checks
//! that the rows are the right ones and prints one JSON line a figure. Processes are started, and
//! their order chosen, by the `bench` program; nothing here knows who else takes part.

mod check;
mod contender;
mod driver;
mod figure;
mod machine;
mod person;
mod random;
mod setting;
mod sum;

pub use contender::{Contender, Result, Stamps};
pub use driver::run;
pub use figure::Figure;
pub use machine::stolen_ms;
pub use person::{AsPerson, PEOPLE_SEED, Person, PersonRef, people};
pub use random::Random;
pub use setting::{CREATE_TABLE, CREATE_TABLE_POSTGRES, POSTGRES, Place, Setting};
pub use sum::Sum;
