//! Checks, outside the timed part, that the rows read are the rows inserted.

use crate::{AsPerson, Contender, Person, PersonRef, Result, Stamps, Sum};

/// Compares rows with those inserted, field by field and in order.
pub(crate) fn check_list<C: Contender>(rows: &[C::Row], people: &[Person]) -> Result<()> {
    if rows.len() != people.len() {
        return Err(
            format!("{} rows listed where {} were inserted", rows.len(), people.len()).into()
        );
    }
    for (row, person) in rows.iter().zip(people) {
        let (mut row, mut person) = (row.as_person(), person.as_person());
        if C::STAMPS == Stamps::Made {
            // 2020 in microseconds. A zero, or a stamp in another unit, is below it.
            if row.created_at < 1_577_836_800_000_000 || row.modified_at < row.created_at {
                return Err(format!("implausible stamps: {row:?}").into());
            }
            unstamp(&mut row);
            unstamp(&mut person);
        }
        if row != person {
            return Err(format!("listed {row:?} where {person:?} was inserted").into());
        }
    }
    Ok(())
}

fn unstamp(person: &mut PersonRef<'_>) {
    (person.modified_at, person.created_at) = (0, 0);
}

/// Compares the checksum of the rows read with that of the rows inserted.
pub(crate) fn check_sum<'a, C: Contender>(
    sum: Sum,
    people: impl Iterator<Item = &'a Person>,
) -> Result<()> {
    let mut expected = Sum::default();
    for person in people {
        match C::STAMPS {
            Stamps::Given => expected.add_person(person.as_person()),
            Stamps::Made => expected.add_unstamped(person.as_person()),
        }
    }
    if sum != expected {
        return Err(format!("the checksum of the rows read is {sum:?}, not {expected:?}").into());
    }
    Ok(())
}
