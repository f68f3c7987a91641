//! The floor of the memory engine: a `Vec` of rows, a hash index by id, and one lock for both.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::process::ExitCode;
use std::sync::{PoisonError, RwLock};

use bench_orm_workload::{AsPerson, Contender, Person, Place, Result, Setting, Sum, run};

fn main() -> ExitCode {
    run::<Rows>()
}

#[derive(Default)]
struct Rows {
    table: RwLock<Table>,
}

#[derive(Default)]
struct Table {
    people: Vec<Person>,
    by_id: HashMap<i64, usize, BuildHasherDefault<IdHasher>>,
}

/// Distributes a 64-bit id over the bits that the map uses. It is sufficient for ids that are not
/// chosen to collide.
#[derive(Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_i64(i64::from(byte));
        }
    }

    fn write_i64(&mut self, id: i64) {
        self.0 = (self.0 ^ id as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
}

impl Table {
    fn add(&mut self, person: &Person) -> i64 {
        let id = self.people.len() as i64 + 1;
        self.by_id.insert(id, self.people.len());
        self.people.push(Person { id, ..person.clone() });
        id
    }
}

impl Contender for Rows {
    const NAME: &'static str = "plain Vec";
    const SETTINGS: &'static [Setting] = &[Setting::Engine];
    type New = Person;
    type Row = Person;

    fn new(person: &Person) -> Person {
        person.clone()
    }

    fn open(_: &Place) -> Result<Self> {
        Ok(Self::default())
    }

    fn begin(&mut self) -> Result<()> {
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        Ok(())
    }

    fn insert_each(&mut self, people: &[Person]) -> Result<i64> {
        let mut last_id = 0;
        for person in people {
            last_id = self.table.write().unwrap_or_else(PoisonError::into_inner).add(person);
        }
        Ok(last_id)
    }

    fn insert_batch(&mut self, people: &[Person], _: usize) -> Result<()> {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        table.people.reserve(people.len());
        for person in people {
            table.add(person);
        }
        Ok(())
    }

    fn read_each(&mut self, ids: &[i64], sum: &mut Sum) -> Result<()> {
        for id in ids {
            let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
            let at = *table.by_id.get(id).ok_or_else(|| format!("no row has the id {id}"))?;
            let person = table.people[at].clone();
            drop(table);
            sum.add_person(std::hint::black_box(&person).as_person());
        }
        Ok(())
    }

    fn list(&mut self) -> Result<Vec<Person>> {
        Ok(self.table.read().unwrap_or_else(PoisonError::into_inner).people.clone())
    }

    fn scan(&mut self, sum: &mut Sum) -> Result<()> {
        for person in &self.table.read().unwrap_or_else(PoisonError::into_inner).people {
            sum.add_person(person.as_person());
        }
        Ok(())
    }
}
