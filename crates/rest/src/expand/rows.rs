//! Rows as JSON, with the numbers that relate them to other rows.

use marmota_model::ValueRef;
use marmota_store::related::ValueNumbers;

/// Stands for no value, and for the end of a list.
const NONE: u32 = u32::MAX;

/// Rows as JSON, one after the other in one buffer.
#[derive(Debug)]
pub(super) struct Rows {
    json: Vec<u8>,
    /// The end of each row in `json`.
    ends: Vec<usize>,
    /// For each row and each of its relations, the number of the value by which it finds the rows
    /// of the relation.
    locals: Vec<u32>,
    /// The number of relations of a row.
    relations: usize,
}

impl Rows {
    /// Creates a buffer for rows with a number of relations.
    pub(super) const fn new(relations: usize) -> Self {
        Self { json: Vec::new(), ends: Vec::new(), locals: Vec::new(), relations }
    }

    /// Adds the row whose JSON `write` appends, and returns its number.
    pub(super) fn add(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> usize {
        write(&mut self.json);
        self.ends.push(self.json.len());
        self.ends.len() - 1
    }

    /// Adds the value by which the last row finds the rows of its next relation.
    pub(super) fn add_local(&mut self, keys: &mut ValueNumbers, value: ValueRef<'_>) {
        self.locals.push(keys.add(value).map_or(NONE, short));
    }

    pub(super) const fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns a row's JSON.
    pub(super) fn json(&self, row: usize) -> &[u8] {
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.json[start..self.ends[row]]
    }

    /// Returns the number of the value by which a row finds the rows of a relation.
    pub(super) fn local(&self, row: usize, relation: usize) -> Option<usize> {
        let number = self.locals[row * self.relations + relation];
        (number != NONE).then_some(number as usize)
    }
}

/// A list of numbers for each key; keys are numbers, too.
#[derive(Debug, Default)]
pub(super) struct Lists {
    /// The first and the last link of each key.
    ends: Vec<(u32, u32)>,
    /// Numbers, each with its next link.
    links: Vec<(u32, u32)>,
}

impl Lists {
    /// Appends a number to the list of a key.
    pub(super) fn push(&mut self, key: usize, number: usize) {
        let link = short(self.links.len());
        self.links.push((short(number), NONE));
        if self.ends.len() <= key {
            self.ends.resize(key + 1, (NONE, NONE));
        }
        let (first, last) = &mut self.ends[key];
        match self.links.get_mut(*last as usize) {
            Some((_, next)) => *next = link,
            None => *first = link,
        }
        *last = link;
    }

    /// Returns the numbers of a key, in the order in which they were added.
    pub(super) fn of(&self, key: usize) -> impl Iterator<Item = usize> {
        let mut link = self.ends.get(key).map_or(NONE, |(first, _)| *first);
        std::iter::from_fn(move || {
            let (number, next) = self.links.get(link as usize)?;
            link = *next;
            Some(*number as usize)
        })
    }
}

/// Rows and values of a request are far fewer than 2^32.
fn short(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(NONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_the_order_of_their_numbers() {
        let mut lists = Lists::default();
        for (key, number) in [(2, 5), (0, 1), (2, 3), (2, 5)] {
            lists.push(key, number);
        }
        assert_eq!(lists.of(2).collect::<Vec<_>>(), [5, 3, 5]);
        assert_eq!(lists.of(0).collect::<Vec<_>>(), [1]);
        assert_eq!(lists.of(1).chain(lists.of(9)).count(), 0);
    }

    #[test]
    fn rows_know_the_values_of_their_relations() {
        let (mut rows, mut keys) =
            (Rows::new(2), [ValueNumbers::default(), ValueNumbers::default()]);
        for (text, values) in [
            ("{}", [ValueRef::Int(7), ValueRef::Null]),
            ("{\"a\":1}", [ValueRef::Int(7), ValueRef::Text("x")]),
        ] {
            rows.add(|json| json.extend_from_slice(text.as_bytes()));
            for (keys, value) in keys.iter_mut().zip(values) {
                rows.add_local(keys, value);
            }
        }
        assert_eq!((rows.len(), rows.json(0), rows.json(1)), (2, &b"{}"[..], &b"{\"a\":1}"[..]));
        let locals = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(row, at)| rows.local(row, at));
        assert_eq!(locals, [Some(0), None, Some(0), Some(0)]);
    }
}
