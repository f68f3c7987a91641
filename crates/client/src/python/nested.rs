//! The types of rows with related rows: one for each table, in which all members are optional, because
//! a row in a row is inserted or changed.

use marmota_model::{Field, Kind};

use super::{dictionary, key, type_of};
use crate::client_table::{ClientRelation, ClientTable, Presence};

/// Adds the types of rows with related rows.
pub(super) fn types(out: &mut String, table: &ClientTable) {
    let (name, of_table) = (&table.type_name, table.table.name());
    let referred = |field: &Field| {
        let relation = table.relations.iter().find(|relation| relation.name == field.name);
        match relation.filter(|_| matches!(field.kind, Kind::Reference { .. })) {
            Some(relation) => format!("{} | {}Nested", type_of(field), relation.target),
            None => type_of(field),
        }
    };
    let rows = |relation: &ClientRelation| {
        let target = &relation.target;
        format!("_Sequence[{target}Nested] | {target}NestedWrites")
    };
    let insert = table.insert().filter(|(_, presence)| *presence != Presence::Absent);
    let all: Vec<_> = insert.map(|(field, _)| (field.name.to_string(), referred(field))).collect();
    let referring: Vec<_> =
        table.referring().map(|(relation, _)| (relation.name.clone(), rows(relation))).collect();
    let nested: Vec<_> = all.iter().cloned().chain(referring.iter().cloned()).collect();
    let what =
        format!("A row of `{of_table}` in another row, or a change of it, with related rows.");
    dictionary(out, &format!("{name}Nested"), &what, ", total=False", &nested);
    let required: Vec<_> = table
        .insert()
        .filter_map(|(field, presence)| {
            match presence {
                Presence::Absent => None,
                Presence::Optional => Some(format!("_NotRequired[{}]", referred(field))),
                Presence::Required => Some(referred(field)),
            }
            .map(|value| (field.name.to_string(), value))
        })
        .chain(referring.into_iter().map(|(name, rows)| (name, format!("_NotRequired[{rows}]"))))
        .collect();
    let what = format!("A new row of `{of_table}` with related rows.");
    dictionary(out, &format!("{name}NestedInsert"), &what, "", &required);
    let list = format!("_Sequence[{name}Nested]");
    let writes = [
        ("create".to_owned(), list.clone()),
        ("update".to_owned(), list.clone()),
        ("delete".to_owned(), format!("_Sequence[{}]", key(table.table.key_kind()))),
        ("set".to_owned(), list),
    ];
    let what = format!("What happens to the rows of `{of_table}` that refer to a row.");
    dictionary(out, &format!("{name}NestedWrites"), &what, ", total=False", &writes);
    let key_field = &table.table.fields()[table.table.key()];
    let mut keys = vec![(key_field.name.to_string(), key(table.table.key_kind()).to_owned())];
    for relation in &table.relations {
        let target = &relation.target;
        let is_reference = table.references().any(|(field, _)| field.name == relation.name);
        if is_reference {
            keys.push((relation.name.clone(), format!("_NotRequired[{target}Keys]")));
        } else if relation.back.is_some() {
            keys.push((relation.name.clone(), format!("_NotRequired[list[{target}Keys]]")));
        }
    }
    let what = format!("The keys of a written row of `{of_table}` and of its related rows.");
    dictionary(out, &format!("{name}Keys"), &what, "", &keys);
}
