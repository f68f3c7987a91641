//! The common work of all contenders of the ORM benchmark, so that only the layer under test
//! differs.
//!
//! A contender implements [`Contender`], and its `main` calls [`run`]. One process measures one
//! [`Setting`] with one number of rows: the driver opens the contender, times each [`Figure`],
//! checks the rows and prints a JSON line per figure. The `bench` program starts the processes and
//! chooses their order.

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
pub use setting::{
    CREATE_TABLE, CREATE_TABLE_MARIADB, CREATE_TABLE_POSTGRES, MARIADB, POSTGRES, Place, Setting,
};
pub use sum::Sum;
