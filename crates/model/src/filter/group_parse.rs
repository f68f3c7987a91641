//! The text form of computed values: `count,sum(estimate),last:max(due)`.

use super::group_query::{AggregateColumn, AggregateFunction, refused};
use crate::{Result, Table};

/// Parses computed values, separated by commas.
///
/// # Errors
/// [`crate::ErrorKind::Invalid`] with the part, and what is allowed.
pub(super) fn aggregates(table: &Table, text: &str) -> Result<Vec<AggregateColumn>> {
    text.split(',').map(|part| aggregate(table, part.trim())).collect()
}

fn aggregate(table: &Table, text: &str) -> Result<AggregateColumn> {
    let (name, call) = match text.split_once(':') {
        Some((name, call)) => (Some(name.trim()), call.trim()),
        None => (None, text),
    };
    let (function, field) = match call.split_once('(') {
        Some((function, rest)) => {
            let Some(field) = rest.strip_suffix(')') else {
                let message = "must end with `)` after the name of a field".to_owned();
                return Err(refused(text, text, "syntax", message));
            };
            (function.trim(), Some(field.trim()).filter(|field| !matches!(*field, "" | "*")))
        }
        None => (call, None),
    };
    let Some(function) = AggregateFunction::ALL.into_iter().find(|one| one.name() == function)
    else {
        let message = "is not a computed value; allowed are `count`, and `count`, `sum`, `avg`, \
                       `min` and `max` with a field, such as `sum(estimate)`";
        return Err(refused(text, text, "unknown", message.to_owned()));
    };
    let field = field.map(|field| table.position(field)).transpose()?;
    let column = AggregateColumn::new(function, field);
    Ok(match name {
        Some(name) => column.named(name.to_owned()),
        None => column,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Field, GroupQuery, Kind, Role, Schema};

    fn table() -> Table {
        let fields = vec![
            Field::new("id", Kind::I64).role(Role::Key),
            Field::new("state", Kind::TEXT),
            Field::new("estimate", Kind::I64).nullable(true),
            Field::new("weight", Kind::Float),
        ];
        Table::new(Schema::new("issue", fields)).unwrap()
    }

    fn names(by: &[usize], text: &str) -> Result<Vec<String>> {
        let mut query = GroupQuery { by: by.to_vec(), ..GroupQuery::new() };
        query.select(&table(), text)?;
        let result = query.check(&table())?;
        Ok(result.fields().iter().map(|field| field.name.to_string()).collect())
    }

    #[test]
    fn a_name_is_made_of_the_function_and_the_field() {
        let found = names(&[1], "count, count(estimate),total:sum(estimate), avg(weight)").unwrap();
        assert_eq!(found, ["state", "count", "count_estimate", "total", "avg_weight"]);
        assert_eq!(names(&[], "count(*)").unwrap(), ["count"]);
    }

    #[test]
    fn errors_name_the_part_and_what_is_allowed() {
        for (by, text, part) in [
            (&[][..], "median(estimate)", "allowed are `count`"),
            (&[], "sum(estimate", "must end with `)`"),
            (&[], "sum", "needs a field"),
            (&[], "sum(state)", "does not apply to a field of type text"),
            (&[], "sum(stat)", "no such field; it has id, state"),
            (&[], "count,count", "two columns"),
            (&[1], "state:count", "two columns"),
            (&[], "a b:count", "ASCII letters"),
            (&[3], "count", "cannot be grouped by a field of type float"),
            (&[1, 1], "count", "occurs twice"),
        ] {
            let error = names(by, text).unwrap_err();
            let all = format!("{error} {:?}", error.violations());
            assert!(all.contains(part), "{text}: {all}");
        }
        let many = vec!["count"; 17].join(",");
        assert!(names(&[], &many).unwrap_err().to_string().contains("at most 16"));
    }
}
