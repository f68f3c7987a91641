//! Tests of the parser and of values.

use proptest::prelude::*;

use super::*;
use crate::{Caller, Role, Timestamp};

fn schema() -> Schema {
    Schema::new(
        "item",
        vec![
            Field::new("id", Kind::I64).role(Role::Key),
            Field::new("name", Kind::TEXT),
            Field::new("price", Kind::Currency),
            Field::new("count", Kind::I64).nullable(true),
            Field::new("weight", Kind::Float),
            Field::new("day", Kind::Date),
            Field::new("json", Kind::Json),
            Field::new("seen", Kind::Timestamp),
        ],
    )
}

fn row() -> Vec<Value> {
    vec![
        Value::Absent,
        Value::from(" Ana é "),
        Value::Currency("2.5".parse().unwrap()),
        Value::Null,
        Value::Float(0.5),
        Value::Date("2026-02-28".parse().unwrap()),
        Value::Json("{}".into()),
        Value::Timestamp("2026-11-21T17:05:00Z".parse().unwrap()),
    ]
}

fn value_as(kind: Kind, text: &str) -> std::result::Result<Value, String> {
    let field = Field::new("x", kind).nullable(true);
    let expression =
        Expression::parse(&schema(), &field, text).map_err(|error| error.to_string())?;
    let caller = Caller { id: "7".into(), name: "ann".into(), groups: Vec::new() };
    let now: Timestamp = "2026-11-21T23:59:59.5Z".parse().unwrap();
    let context = ExpressionContext { now, caller: Some(&caller) };
    let row = row();
    expression.evaluate(&field, &|at| row[at].as_ref(), &context)
}

#[test]
fn values_are_as_documented() {
    let amount = |text: &str| Value::Currency(text.parse().unwrap());
    for (kind, text, expected) in [
        (Kind::TEXT, "lower(trim(name)) + '-' + text(price)", Value::from("ana é-2.5")),
        (Kind::TEXT, "slug('  Crème & Brûlée, 2. ')", Value::from("crème-brûlée-2")),
        (Kind::TEXT, "upper(\"it's\")", Value::from("IT'S")),
        (Kind::I64, "length(name)", Value::Int(7)),
        (Kind::I64, "1 + 2 * 3 - -4", Value::Int(11)),
        (Kind::I64, "(1+2)*3", Value::Int(9)),
        (Kind::I64, "7 / 2 - 7 / -2", Value::Int(6)),
        (Kind::I64, "count + 1", Value::Null),
        (Kind::I64, "coalesce(count, null, 5)", Value::Int(5)),
        (Kind::Float, "coalesce(count, 1) * weight", Value::Float(0.5)),
        (Kind::Float, "3", Value::Float(3.0)),
        (Kind::Currency, "3", amount("3")),
        (Kind::Currency, "-0.5", amount("-0.5")),
        (Kind::Currency, "price * 3", amount("7.5")),
        (Kind::Currency, "price * 0.3333", amount("0.8333")),
        (Kind::Currency, "price / 3", amount("0.8333")),
        (Kind::Currency, "0.00015 + price", Value::Absent),
        (Kind::Date, "day + 1", Value::Date("2026-03-01".parse().unwrap())),
        (Kind::I64, "@today - day", Value::Int(266)),
        (Kind::TEXT, "text(seen) + @user.name", Value::from("2026-11-21T17:05:00Zann")),
        (Kind::I64, "@user.id", Value::Int(7)),
        (Kind::TEXT, "@user.id", Value::from("7")),
        (Kind::Bool, "true", Value::Bool(true)),
    ] {
        match expected {
            Value::Absent => assert!(value_as(kind, text).is_err(), "{text}"),
            expected => assert_eq!(value_as(kind, text), Ok(expected), "{text}"),
        }
    }
}

#[test]
fn random_values_differ_and_have_their_form() {
    let Ok(Value::Text(token)) = value_as(Kind::TEXT, "token(40)") else { panic!() };
    assert_eq!(token.len(), 40);
    assert!(token.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)));
    assert_ne!(value_as(Kind::TEXT, "token(40)"), Ok(Value::Text(token)));
    for (text, version) in [("uuid_v4()", 4), ("uuid_v7()", 7)] {
        let Ok(Value::Uuid(uuid)) = value_as(Kind::Uuid, text) else { panic!() };
        assert_eq!(uuid.get_version_num(), version);
    }
}

#[test]
fn errors_state_the_place_and_the_way_out() {
    let deep = format!("{}1{}", "(".repeat(50), ")".repeat(50));
    let (wide, long) = (format!("1{}", "+1".repeat(200)), "1".repeat(3_000));
    for (kind, text, part) in [
        (Kind::TEXT, "", "has the end, expected a value"),
        (Kind::TEXT, "nme", "has `nme`, which is not a field of `item`; it has id, name"),
        (Kind::TEXT, "name +", "has the end"),
        (Kind::TEXT, "name name", "expected the end, or one of + - * /, before character 6"),
        (Kind::TEXT, "name + 1", "has `+` between text and integer; text(…)"),
        (Kind::TEXT, "lower(price)", "has `lower` of currency"),
        (Kind::TEXT, "lower(name", "expected `)`"),
        (Kind::TEXT, "lower()", "takes one text"),
        (Kind::TEXT, "md5(name)", "unknown function `md5`; there are coalesce"),
        (Kind::TEXT, "token(0)", "1 to 256"),
        (Kind::TEXT, "token(name)", "1 to 256"),
        (Kind::TEXT, "'open", "closing quote"),
        (Kind::TEXT, "@user.mail", "@user.id"),
        (Kind::TEXT, "json", "whose kind expressions cannot read"),
        (Kind::TEXT, "text(id)", "not known before the insert"),
        (Kind::TEXT, "length(name)", "is integer, and the field is text"),
        (Kind::Json, "'{}'", "is text, and the field is json"),
        (Kind::I64, "'7'", "is text, and the field is integer"),
        (Kind::I64, "1.5", "is float"),
        (Kind::I64, "1x", "expected a number such as"),
        (Kind::I64, "-name", "has `-` before text"),
        (Kind::I64, "coalesce(name, 1)", "of the same kind"),
        (Kind::I64, "1 / 0", "divides by zero"),
        (Kind::I64, "9223372036854775807 + 1", "is out of range"),
        (Kind::Currency, "price * 9223372036854775807", "is out of range"),
        (Kind::Date, "day + 9999999999", "is out of range"),
        (Kind::Float, "1.0 / 0.0", "divides by zero"),
        (Kind::Uuid, "@user.id", "a key which is not a UUID"),
        (Kind::I64, &deep, "nests too deep"),
        (Kind::I64, &wide, "more than 100 values"),
        (Kind::I64, &long, "at most 2000"),
    ] {
        let error = value_as(kind, text).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }
}

proptest! {
    #[test]
    fn never_panics(
        parts in proptest::collection::vec(
            proptest::sample::select(vec![
                "name", "price", "count", "weight", "day", "json", "id", "é", "lower(", "text(",
                "coalesce(", "token(", "uuid_v4(", "length(", ")", "(", ",", "+", "-", "*", "/",
                "'x'", "'", "\"", "1", "9223372036854775807", "2.5", ".", "@", "@now", "@today",
                "@user.id", "null", "true", " ", "=", "\\",
            ]),
            0..20,
        )
    ) {
        let text = parts.concat();
        for kind in [Kind::TEXT, Kind::I64, Kind::Float, Kind::Currency, Kind::Date] {
            let value = value_as(kind.clone(), &text);
            if let Ok(value) = value {
                prop_assert!(value == Value::Null || value.as_ref().form() == Some(kind.form()));
            }
        }
    }

    #[test]
    fn sums_and_products_are_exact_or_refused(left: i64, right: i64) {
        let (one, other) = (left.checked_abs(), right.checked_abs());
        let (Some(one), Some(other)) = (one, other) else { return Ok(()) };
        for (symbol, result) in [
            ("+", one.checked_add(other)),
            ("-", one.checked_sub(other)),
            ("*", one.checked_mul(other)),
            ("/", one.checked_div(other)),
        ] {
            let value = value_as(Kind::I64, &format!("{one} {symbol} {other}"));
            prop_assert_eq!(value.ok(), result.map(Value::Int));
        }
    }
}
