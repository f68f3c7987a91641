//! The record: an id and six fields, like that of the repository's `bench`.

use bench_orm_workload as workload;
use marmota::prelude::*;
use serde::Serialize;

#[derive(Model, Serialize)]
pub(super) struct Person {
    pub(super) id: i64,
    #[model(max = 40)]
    pub(super) first_name: String,
    #[model(max = 40)]
    pub(super) last_name: String,
    #[serde(serialize_with = "as_number")]
    pub(super) balance: Currency,
    pub(super) met_at: Timestamp,
    #[model(updated_at)]
    pub(super) modified_at: Timestamp,
    #[model(created_at)]
    pub(super) created_at: Timestamp,
}

/// Serialises an amount as a number, like Marmota's lists.
fn as_number<S: serde::Serializer>(
    amount: &Currency,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    match amount.scaled() {
        whole if whole % 10_000 == 0 => serializer.serialize_i64(whole / 10_000),
        scaled => serializer.serialize_f64(scaled as f64 / 1e4),
    }
}

/// Returns people, the same ones each time; the store assigns their ids.
pub(super) fn people(rows: usize) -> Vec<Person> {
    workload::people(rows).iter().map(Person::of).collect()
}

impl Person {
    fn of(person: &workload::Person) -> Self {
        let moment = |micros| Timestamp::from_micros(micros).unwrap_or_default();
        Self {
            id: 0,
            first_name: person.first_name.clone(),
            last_name: person.last_name.clone(),
            balance: Currency::from_scaled(person.balance),
            met_at: moment(person.met_at),
            modified_at: moment(person.modified_at),
            created_at: moment(person.created_at),
        }
    }
}
