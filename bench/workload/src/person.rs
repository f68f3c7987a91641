//! The row of the benchmark: a 64-bit id, two texts of up to 40 characters, and four numbers.

use crate::Random;

/// The seed of the rows that all contenders insert.
pub const PEOPLE_SEED: u64 = 0x006d_6172_6d6f_7461;

/// A row to insert. The id is the one that the store is expected to assign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// Counted from 1, in the order of insertion.
    pub id: i64,
    /// One or two given names, 2 to 40 characters.
    pub first_name: String,
    /// One or two family names, 2 to 40 characters.
    pub last_name: String,
    /// Currency in units of 1/10,000.
    pub balance: i64,
    /// A date-time in microseconds since 1970, UTC.
    pub met_at: i64,
    /// Time of the last change, microseconds since 1970, UTC.
    pub modified_at: i64,
    /// Time of the creation, microseconds since 1970, UTC.
    pub created_at: i64,
}

/// A row that borrows from the object that a contender reads into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of Person")]
pub struct PersonRef<'a> {
    pub id: i64,
    pub first_name: &'a str,
    pub last_name: &'a str,
    pub balance: i64,
    pub met_at: i64,
    pub modified_at: i64,
    pub created_at: i64,
}

/// Access to a contender's object for the checks.
pub trait AsPerson {
    /// Returns the fields.
    fn as_person(&self) -> PersonRef<'_>;
}

impl AsPerson for Person {
    fn as_person(&self) -> PersonRef<'_> {
        PersonRef {
            id: self.id,
            first_name: &self.first_name,
            last_name: &self.last_name,
            balance: self.balance,
            met_at: self.met_at,
            modified_at: self.modified_at,
            created_at: self.created_at,
        }
    }
}

const FIRST_NAMES: [&str; 48] = [
    "Anna",
    "Ben",
    "Charlotte",
    "Dominique",
    "Élodie",
    "Frederick",
    "Giulia",
    "Henrik",
    "Ines",
    "Jo",
    "Katharina",
    "Liam",
    "María José",
    "Niamh",
    "Oliver",
    "Penelope",
    "Quentin",
    "Rosa",
    "Søren",
    "Theodora",
    "Uma",
    "Valentina",
    "Wolfgang",
    "Xavier",
    "Yasmin",
    "Zoë",
    "Alexander",
    "Bartholomew",
    "Chidi",
    "Dmitri",
    "Eleanor",
    "Fatima",
    "George",
    "Hannah",
    "Ivan",
    "Jacqueline",
    "Kenji",
    "Leonardo",
    "Margaret",
    "Nathaniel",
    "Olga",
    "Priya",
    "Ravi",
    "Siobhan",
    "Tomasz",
    "Ursula",
    "Victoria",
    "William",
];

const LAST_NAMES: [&str; 48] = [
    "Abernathy",
    "Berg",
    "Castellanos",
    "de la Cruz",
    "Eriksson",
    "Featherstonehaugh",
    "García Márquez",
    "Hoffmann",
    "Ibrahim",
    "Johnson",
    "Kowalczyk",
    "Li",
    "Montgomery",
    "Nakamura",
    "O'Sullivan",
    "Papadopoulos",
    "Quinn",
    "Rasmussen",
    "Smith",
    "Thompson",
    "Underwood",
    "van den Broek",
    "Wojciechowski",
    "Xu",
    "Yamamoto",
    "Zimmermann",
    "Müller",
    "Ng",
    "Bjørnstad",
    "Chakraborty",
    "Dubois",
    "Evans",
    "Fernández",
    "Grigoriev",
    "Hernandez",
    "Ito",
    "Jones",
    "Kim",
    "Lindqvist",
    "MacDonald",
    "Novák",
    "Okonkwo",
    "Petrov",
    "Rodriguez",
    "Singh",
    "Tanaka",
    "Wright",
    "Young",
];

/// Returns the first `rows` people; the same in every process.
pub fn people(rows: usize) -> Vec<Person> {
    let mut random = Random::new(PEOPLE_SEED);
    (1..=rows as i64).map(|id| person(id, &mut random)).collect()
}

fn person(id: i64, random: &mut Random) -> Person {
    const YEAR_2000_US: i64 = 946_684_800_000_000;
    const SPAN_US: usize = 25 * 365 * 86_400 * 1_000_000;
    let created_at = YEAR_2000_US + random.below(SPAN_US) as i64;
    Person {
        id,
        first_name: name(&FIRST_NAMES, ' ', 4, random),
        last_name: name(&LAST_NAMES, '-', 6, random),
        balance: random.below(2_000_000_000) as i64 - 500_000_000,
        met_at: YEAR_2000_US - random.below(SPAN_US) as i64,
        modified_at: created_at + random.below(1 << 44) as i64,
        created_at,
    }
}

/// Returns one name, or (once in `one_in`) two names joined by `joint`, with an exact capacity.
fn name(names: &[&str], joint: char, one_in: usize, random: &mut Random) -> String {
    let first = names[random.below(names.len())];
    if random.below(one_in) > 0 {
        return first.to_owned();
    }
    let second = names[random.below(names.len())];
    let mut both = String::with_capacity(first.len() + second.len() + 1);
    both.push_str(first);
    both.push(joint);
    both.push_str(second);
    both
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_to_forty_characters_and_vary() {
        let people = people(20_000);
        let longest = people
            .iter()
            .flat_map(|p| [p.first_name.chars().count(), p.last_name.chars().count()])
            .max()
            .unwrap();
        assert!((25..=40).contains(&longest), "longest name: {longest}");
        let texts: usize = people.iter().map(|p| p.first_name.len() + p.last_name.len()).sum();
        let mean = texts as f64 / people.len() as f64;
        assert!((12.0..24.0).contains(&mean), "mean bytes of both names: {mean}");
    }

    #[test]
    fn the_rows_do_not_depend_on_their_number() {
        assert_eq!(people(50), people(500)[..50]);
    }
}
