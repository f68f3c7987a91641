//! Any text as the expression of a field: no panic, and a value only of the field's kind.
#![no_main]

use libfuzzer_sys::fuzz_target;
use marmota_model::{
    ExpressionContext, Field, Kind, Role, Schema, Scratch, Table, Timestamp, ValueRef,
};

/// The kinds that a field with an expression can have.
const KINDS: [Kind; 9] = [
    Kind::TEXT,
    Kind::I64,
    Kind::Float,
    Kind::Currency,
    Kind::Bool,
    Kind::Date,
    Kind::Time,
    Kind::Timestamp,
    Kind::Uuid,
];

fn fields() -> Vec<Field> {
    vec![
        Field::new("id", Kind::I64).role(Role::Key),
        Field::new("a", Kind::TEXT),
        Field::new("n", Kind::I64).nullable(true),
        Field::new("f", Kind::Float),
        Field::new("c", Kind::Currency),
        Field::new("d", Kind::Date),
    ]
}

fuzz_target!(|text: &str| {
    for kind in KINDS {
        let target = Field::new("x", kind).nullable(true);
        for field in
            [target.clone().default_expression(text.to_owned()), target.computed(text.to_owned())]
        {
            let mut fields = fields();
            fields.push(field);
            let Ok(table) = Table::new(Schema::new("row", fields)) else { continue };
            let scratch = Scratch::new();
            let mut row = [
                ValueRef::Absent,
                ValueRef::Text(text),
                ValueRef::Int(i64::MAX),
                ValueRef::Float(f64::MAX),
                ValueRef::Currency("900000000000000".parse().expect("an amount")),
                ValueRef::Date("9999-12-31".parse().expect("a date")),
                ValueRef::Absent,
            ];
            let context = ExpressionContext { now: Timestamp::default(), caller: None };
            let filled = table.fill_defaults(&mut row, &context, &scratch);
            let computed = table.compute(&mut row, table.computed_fields(), table.computed_fields(), &scratch);
            if filled.is_ok() && computed.is_ok() {
                let form = row[6].form();
                assert!(form.is_none() || form == Some(table.fields()[6].kind.form()));
            }
        }
    }
});
