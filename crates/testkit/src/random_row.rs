//! [`RandomRow`]: values that fit the fields of a table and the rules on them.

use marmota_model::{
    Currency, Date, EnumStored, Field, File, Kind, Literal, Role, Rule, Table, Time, Timestamp,
    Uuid, Value,
};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::string::string_regex;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Characters that texts are made of: some take several bytes, some have a meaning in SQL or JSON.
const LETTERS: [char; 16] =
    ['a', 'b', 'k', 'z', 'A', 'Z', '0', '9', ' ', 'é', 'ß', '漢', '🦫', '\'', '"', '%'];
/// The maximum length, in characters or bytes, of a value without a limit.
const LENGTH_MAX: u64 = 40;
const MICROS_PER_DAY: i64 = 86_400_000_000;

/// Makes random rows; the same seed makes the same rows.
pub(crate) struct RandomRow {
    rng: fastrand::Rng,
    /// For texts that match a pattern.
    patterns: TestRunner,
}

impl RandomRow {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut bytes = [0; 32];
        rng.fill(&mut bytes);
        let of_patterns = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        Self { rng, patterns: TestRunner::new_with_rng(Config::default(), of_patterns) }
    }

    /// Returns a number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.rng.usize(..end.max(1))
    }

    /// Returns any number.
    pub(crate) fn number(&mut self) -> u64 {
        self.rng.u64(..)
    }

    /// Makes a row for an insert. `reference` returns the key of a row of another table, if there is
    /// one. Returns `None` if a required reference has no row to refer to.
    pub(crate) fn row(
        &mut self,
        table: &Table,
        mut reference: impl FnMut(&str) -> Option<Value>,
    ) -> Option<Vec<Value>> {
        let fields = table.fields().iter();
        fields.map(|field| self.value(table, field, &mut reference)).collect()
    }

    /// Makes the value of a field; `None` if it is a required reference to a table without rows.
    pub(crate) fn value(
        &mut self,
        table: &Table,
        field: &Field,
        reference: &mut impl FnMut(&str) -> Option<Value>,
    ) -> Option<Value> {
        let is_made_by_store = match field.role {
            Role::Plain => false,
            Role::Key => !matches!(field.kind, Kind::Text { .. }),
            Role::CreatedAt | Role::UpdatedAt | Role::Version => true,
        };
        if is_made_by_store {
            return Some(Value::Absent);
        }
        if field.nullable && self.rng.u8(..5) == 0 {
            return Some(Value::Null);
        }
        if let Kind::Reference { table: other, .. } = &field.kind {
            let found = reference(other);
            return if field.nullable { Some(found.unwrap_or(Value::Null)) } else { found };
        }
        Some(self.plain(table, field))
    }

    fn plain(&mut self, table: &Table, field: &Field) -> Value {
        match &field.kind {
            Kind::Bool => Value::Bool(self.rng.bool()),
            Kind::Int { min, max } => {
                let number = |literal: &Literal| match literal {
                    Literal::Int(number) => Some(*number),
                    _ => None,
                };
                let (least, most) = range(field, *min, *max, number);
                Value::Int(self.integer(least, most))
            }
            Kind::Float => {
                let number = |literal: &Literal| match literal {
                    Literal::Float(number) => Some(*number),
                    Literal::Int(number) => Some(*number as f64),
                    _ => None,
                };
                let (least, most) = range(field, -1e9, 1e9, number);
                Value::Float((least + self.rng.f64() * (most - least)).clamp(least, most))
            }
            Kind::Currency => {
                let amount = |literal: &Literal| match literal {
                    Literal::Currency(amount) => Some(amount.scaled()),
                    Literal::Int(number) => number.checked_mul(10_000),
                    _ => None,
                };
                let (least, most) = range(field, i64::MIN, i64::MAX, amount);
                Value::Currency(Currency::from_scaled(self.integer(least, most)))
            }
            Kind::Date => {
                let (least, most) = range(field, -30_000, 60_000, |literal| {
                    parsed::<Date>(literal).map(|date| i64::from(date.days()))
                });
                let days = self.rng.i64(least..=most);
                let date = i32::try_from(days).ok().and_then(|days| Date::from_days(days).ok());
                Value::Date(date.unwrap_or_default())
            }
            Kind::Time => {
                let (least, most) = range(field, 0, MICROS_PER_DAY - 1, |literal| {
                    parsed::<Time>(literal).map(Time::micros)
                });
                Value::Time(Time::from_micros(self.rng.i64(least..=most)).unwrap_or_default())
            }
            Kind::Timestamp => {
                let (least, most) = range(field, 0, 4_000_000_000_000_000, |literal| {
                    parsed::<Timestamp>(literal).map(Timestamp::micros)
                });
                let micros = self.rng.i64(least..=most);
                Value::Timestamp(Timestamp::from_micros(micros).unwrap_or_default())
            }
            Kind::Uuid => Value::Uuid(Uuid::from_u128(self.rng.u128(..))),
            Kind::Enum { variants, stored } => {
                let variant = &variants[self.below(variants.len())];
                match stored {
                    EnumStored::Integer => Value::Int(variant.number),
                    EnumStored::Text => Value::Text(variant.name.clone().into_owned()),
                }
            }
            Kind::Vector { dimensions } => {
                let numbers = (0..*dimensions).map(|_| self.rng.f32() - 0.5);
                Value::Blob(numbers.flat_map(f32::to_le_bytes).collect())
            }
            Kind::Blob => {
                let length = self.length(field, 0);
                Value::Blob((0..length).map(|_| self.rng.u8(..)).collect())
            }
            Kind::File { bytes_max, .. } => {
                let file = File {
                    id: Uuid::from_u128(self.rng.u128(..)),
                    name: self.text(0, 8),
                    content_type: "text/plain".to_owned(),
                    bytes: self.rng.u64(..=*bytes_max),
                    sha256: format!("{:064x}", self.rng.u128(..)),
                    created: Timestamp::from_micros(self.rng.i64(0..4_000_000_000_000_000))
                        .unwrap_or_default(),
                };
                Value::Json(file.to_json())
            }
            Kind::Json => {
                let (number, word) = (self.rng.i32(..), self.text(0, 8));
                Value::Json(serde_json::json!({ "n": number, "w": [word, null, true] }).to_string())
            }
            // A text; references have no rules.
            kind => {
                let chars_max = match kind {
                    Kind::Text { chars_max, .. } => *chars_max,
                    _ => 0,
                };
                // Long enough that duplicates are unlikely if the text must be unique.
                let least = if field.unique || field.name == table.fields()[table.key()].name {
                    12
                } else {
                    0
                };
                Value::Text(self.text_of(field, chars_max, least))
            }
        }
    }

    fn text_of(&mut self, field: &Field, chars_max: u32, least: u64) -> String {
        for rule in &*field.rules {
            match rule {
                Rule::Pattern(pattern) => {
                    let tree =
                        string_regex(pattern).map(|texts| texts.new_tree(&mut self.patterns));
                    if let Ok(Ok(tree)) = tree {
                        return tree.current();
                    }
                }
                Rule::Url => return format!("https://example.test/{:x}", self.rng.u64(..)),
                Rule::Ip => return std::net::Ipv6Addr::from_bits(self.rng.u128(..)).to_string(),
                Rule::Email => return format!("{:x}@example.test", self.rng.u64(..)),
                _ => {}
            }
        }
        let length = self.length(field, chars_max);
        let most = if chars_max > 0 { u64::from(chars_max) } else { u64::MAX };
        self.text(1, length.max(least).min(most))
    }

    /// Returns a text of this length that begins with this number of visible letters.
    fn text(&mut self, visible: u64, length: u64) -> String {
        let letter = |rng: &mut fastrand::Rng, place: u64| match place < visible {
            true => LETTERS[rng.usize(..8)],
            false => LETTERS[rng.usize(..LETTERS.len())],
        };
        (0..length).map(|place| letter(&mut self.rng, place)).collect()
    }

    /// Returns a length that the rules allow.
    fn length(&mut self, field: &Field, chars_max: u32) -> u64 {
        let (mut least, mut most) = (0, if chars_max > 0 { chars_max.into() } else { LENGTH_MAX });
        for rule in &*field.rules {
            match rule {
                Rule::NotEmpty => least = least.max(1),
                Rule::Length { min, max } => {
                    least = least.max(u64::from(*min));
                    most = most.min(u64::from(*max)).max(least);
                }
                _ => {}
            }
        }
        self.rng.u64(least..=most.max(least).min(least + LENGTH_MAX))
    }

    /// Returns a number in the range: a bound with probability 1/4, a small number with 1/2.
    fn integer(&mut self, least: i64, most: i64) -> i64 {
        match self.rng.u8(..8) {
            0 => least,
            1 => most,
            2..=5 => self.rng.i64(-100..=100).clamp(least, most),
            _ => self.rng.i64(least..=most),
        }
    }
}

/// Returns the part of a range that the rules of a field allow. A rule beyond the range takes
/// precedence.
fn range<T: PartialOrd + Copy>(
    field: &Field,
    mut least: T,
    mut most: T,
    read: impl Fn(&Literal) -> Option<T>,
) -> (T, T) {
    for rule in &*field.rules {
        let Rule::Range { min, max } = rule else { continue };
        if let Some(max) = max.as_ref().and_then(&read) {
            most = max;
            least = if least > most { most } else { least };
        }
        if let Some(min) = min.as_ref().and_then(&read) {
            least = min;
            most = if most < least { least } else { most };
        }
    }
    (least, most)
}

fn parsed<T: std::str::FromStr>(literal: &Literal) -> Option<T> {
    match literal {
        Literal::Text(text) => text.parse().ok(),
        _ => None,
    }
}
