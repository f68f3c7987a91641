//! Enums in rows: by name or by number, and nothing else is read.

use marmota_model::{FieldValue, Scratch, ValueRef};

use crate::person::{Gender, Status};

#[test]
fn a_name_is_read_as_it_was_written() {
    let scratch = Scratch::new();
    for (gender, name) in
        [(Gender::Female, "female"), (Gender::Male, "male"), (Gender::NonBinary, "x")]
    {
        assert_eq!(gender.to_row(&scratch), ValueRef::Text(name));
        assert_eq!(Gender::from_row(ValueRef::Text(name)), Some(gender));
    }
    for other in [ValueRef::Text("Female"), ValueRef::Int(0), ValueRef::Null] {
        assert_eq!(Gender::from_row(other), None);
    }
}

#[test]
fn a_number_is_read_as_it_was_written() {
    let scratch = Scratch::new();
    for (status, number) in [(Status::Active, 1), (Status::Retired, 2), (Status::Lost, -7)] {
        assert_eq!(status.to_row(&scratch), ValueRef::Int(number));
        assert_eq!(Status::from_row(ValueRef::Int(number)), Some(status));
    }
    for other in [ValueRef::Int(0), ValueRef::Text("retired"), ValueRef::Null] {
        assert_eq!(Status::from_row(other), None);
    }
}
