//! The selection of rows: condition, order and start. Every engine translates the tree of a
//! condition (to SQL, a predicate in memory, a MongoDB match).
//!
//! The logic is SQL's three-valued logic: a comparison with NULL is neither true nor false, nor is
//! its negation, and only rows for which the filter is true are selected. On all engines,
//! `contains` and `starts_with` ignore the case of A to Z.
//!
//! | form | type | made by |
//! |---|---|---|
//! | typed | [`Filter<M>`](Filter), [`Order<M>`](Order) | columns: `Person::BORN.ge(1900)` |
//! | of a table at run time | [`Filter`], [`Order`] | [`parse_filter`], [`parse_order`] |
//! | for engines | [`FilterExpr`], [`SortKey`], [`RowQuery`], [`RankedQuery`], [`GroupQuery`] | the verbs of a store |

mod check;
mod column;
mod expr;
mod group_parse;
mod group_query;
mod index_filter;
mod json_member;
mod ranking;
mod related;
mod related_column;
mod related_field;
mod row_query;
mod subject;
mod text;
mod typed;

pub use check::{FILTER_BYTES_MAX, FILTER_DEPTH_MAX, FILTER_TERMS_MAX};
pub use expr::{FilterExpr, SortKey};
pub use group_query::{
    AggregateColumn, AggregateFunction, GROUP_AGGREGATES_MAX, GROUP_FIELDS_MAX, GroupQuery,
};
pub use json_member::Member;
pub use ranking::{
    RANKED_ROWS_MAX, RankPlace, RankedQuery, RankedSearch, Ranker, Ranking, parse_ranking,
};
pub use related::{Quantifier, RelatedFilter};
pub use related_column::{ColumnPath, Reference};
pub use related_field::{RELATED_FIELDS_MAX, RelatedField, RelatedFieldStep};
pub use row_query::RowQuery;
pub use text::{asks_for_caller, parse_filter, parse_order, parse_rule};
pub use typed::{Filter, Order};
