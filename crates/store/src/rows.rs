//! Tables and rows, as all engines and layers use them: the tables of a store, rows before a write,
//! filters on rows, copies, and the errors for rows.
//!
//! | module | subject |
//! |---|---|
//! | `registry` | the tables of a store, by name and by type |
//! | `cascades` | what deletes do to the rows that refer to the deleted ones |
//! | `tables` | the tables of an engine, by number |
//! | `prepare` | keys, timestamps, defaults and rules of a row before a write |
//! | `predicate` | the evaluation of a filter on a row |
//! | `row_order` | the order of the rows of a list |
//! | `best_rows` | the best rows of a ranked list in memory |
//! | `related_list` | lists in an order by fields of related rows |
//! | `row_groups` | groups of rows in memory |
//! | `row_buffer` | copies of rows between threads |
//! | `history` | the model of history entries |
//! | `refusal` | the errors with which engines refuse a write |

pub(crate) mod best_rows;
pub(crate) mod cascades;
pub mod history;
pub mod predicate;
pub mod prepare;
pub mod refusal;
pub mod registry;
pub(crate) mod related_list;
pub mod related_values;
pub mod row_buffer;
pub(crate) mod row_groups;
pub(crate) mod row_order;
pub mod tables;
