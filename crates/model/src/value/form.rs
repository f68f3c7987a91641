//! The forms of values. Engines choose the storage of a field by its form.

use crate::ValueRef;

/// Defines [`ValueForm`] from the variants of [`ValueRef`] that hold a value, in one list.
macro_rules! forms {
    ($($name:ident),*) => {
        /// The form of a field's values.
        ///
        /// Several kinds have the same form: an enum that is stored as an integer, a reference to a
        /// row with an automatic key, and every integer are [`ValueForm::Int`].
        ///
        /// ```
        /// use marmota_model::{Kind, ValueForm};
        /// assert_eq!(Kind::Int { min: 0, max: 10 }.form(), ValueForm::Int);
        /// assert_eq!(Kind::TEXT.form(), ValueForm::Text);
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ValueForm {
            $(
                #[doc = concat!("[`ValueRef::", stringify!($name), "`].")]
                $name,
            )*
        }

        impl ValueForm {
            /// All forms.
            ///
            /// ```
            /// use marmota_model::{Kind, ValueForm};
            /// assert!(ValueForm::ALL.contains(&Kind::Date.form()));
            /// ```
            pub const ALL: [Self; [$(stringify!($name)),*].len()] = [$(Self::$name),*];
        }

        impl ValueRef<'_> {
            /// Returns the form of the value; `None` for absent values and NULL.
            ///
            /// ```
            /// use marmota_model::{Kind, ValueForm, ValueRef};
            /// assert_eq!(ValueRef::Int(7).form(), Some(ValueForm::Int));
            /// assert_eq!(ValueRef::Text("Ada").form(), Some(Kind::TEXT.form()));
            /// assert_eq!(ValueRef::Null.form(), None);
            /// ```
            #[inline]
            #[must_use]
            pub const fn form(&self) -> Option<ValueForm> {
                match self {
                    Self::Absent | Self::Null => None,
                    $(Self::$name(_) => Some(ValueForm::$name),)*
                }
            }
        }
    };
}

forms!(Bool, Int, Float, Currency, Text, Json, Blob, Date, Time, Timestamp, Uuid);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{RowWriter, read_value, write_value};
    use crate::{Currency, Field, Kind, Role, Schema, Scratch, Table, Uuid, Value, text};

    /// A kind of each form, and two of its values, the lesser first. A new form needs an arm, and
    /// the test below then names the places that do not know it.
    fn sample(form: ValueForm) -> (Kind, [Value; 2]) {
        let parsed = |kind: Kind, texts: [&str; 2]| {
            let values = texts.map(|text| text::parse(&kind, text).unwrap().to_value());
            (kind, values)
        };
        match form {
            ValueForm::Bool => (Kind::Bool, [false, true].map(Value::Bool)),
            ValueForm::Int => (Kind::I64, [i64::MIN, 7].map(Value::Int)),
            ValueForm::Float => (Kind::Float, [-2.5, 0.1].map(Value::Float)),
            ValueForm::Currency => {
                (Kind::Currency, [-1, 125_000].map(Currency::from_scaled).map(Value::Currency))
            }
            ValueForm::Text => (Kind::TEXT, ["", "é\""].map(Value::from)),
            ValueForm::Json => (Kind::Json, ["[1]", "{}"].map(|text| Value::Json(text.into()))),
            ValueForm::Blob => (Kind::Blob, [vec![], vec![0, 255]].map(Value::Blob)),
            ValueForm::Date => parsed(Kind::Date, ["0001-01-01", "2026-11-21"]),
            ValueForm::Time => parsed(Kind::Time, ["00:00:00", "17:05:00.25"]),
            ValueForm::Timestamp => {
                parsed(Kind::Timestamp, ["1969-12-31T23:59:59.5Z", "2026-11-21T17:05:00Z"])
            }
            ValueForm::Uuid => (Kind::Uuid, [1, 2].map(|bits| Uuid::from_u128(bits).into())),
        }
    }

    #[test]
    fn every_form_is_known_to_checks_orders_json_and_texts() {
        for form in ValueForm::ALL {
            let (kind, [low, high]) = sample(form);
            assert_eq!(kind.form(), form);
            assert!(low.as_ref().order(&high.as_ref()).is_lt(), "{form:?} has no order");
            let field = Field::new("value", kind);
            let id = Field::new("id", Kind::I64).role(Role::Key);
            let table = Table::new(Schema::new("sample", vec![id, field.clone()])).unwrap();
            for value in [&low, &high] {
                let row = [ValueRef::Absent, value.as_ref()];
                assert_eq!(row[1].form(), Some(form));
                table.validate(&row).unwrap();
                assert_eq!(field.kind.read_stored(row[1]), Some(row[1]), "stored");
                assert_eq!(row[1].to_value(), *value);

                let mut json = Vec::new();
                write_value(&mut json, row[1]);
                let json = String::from_utf8(json).unwrap();
                let scratch = Scratch::new();
                assert_eq!(read_value(&field, &json, &scratch), Ok(row[1]), "JSON");
                let mut line = Vec::new();
                RowWriter::new().write(&mut line, &table, table.all(), &row);
                assert_eq!(String::from_utf8(line).unwrap(), format!("{{\"value\":{json}}}"));

                if !matches!(form, ValueForm::Text | ValueForm::Blob) {
                    assert_eq!(text::parse(&field.kind, json.trim_matches('"')), Ok(row[1]));
                }
            }
        }
    }
}
