//! Encoding of ranked queries. Decoding checks only that they are well formed, not that they fit a
//! table.

use marmota_model::{
    FILTER_TERMS_MAX, Metric, RankPlace, RankedQuery, RankedSearch, Ranking, Result, Search,
    ValueRef,
};

use super::bytes::{Bytes, broken, put_bytes, put_unsigned};
use super::query::{put_fields, put_filter_option, put_point};
use marmota_model::binary::put_value;

const RELEVANCE: u8 = 0;
const NEAREST: u8 = 1;
const DISTANCE: u8 = 2;

pub(crate) fn put_ranked(out: &mut Vec<u8>, query: &RankedQuery) {
    put_filter_option(out, query.filter.as_ref());
    match &query.by {
        Ranking::Relevance(searches) => {
            out.push(RELEVANCE);
            put_unsigned(out, searches.len() as u64);
            for RankedSearch { fields, search } in searches {
                put_fields(out, *fields);
                put_bytes(out, search.text().as_bytes());
            }
        }
        Ranking::Nearest { field, to, metric } => {
            out.push(NEAREST);
            put_unsigned(out, *field as u64);
            let number = Metric::ALL.iter().position(|known| known == metric);
            out.push(number.unwrap_or_default() as u8);
            let bytes: Vec<u8> = to.iter().flat_map(|number| number.to_le_bytes()).collect();
            put_value(out, ValueRef::Blob(&bytes));
        }
        Ranking::Distance { latitude, longitude, from } => {
            out.push(DISTANCE);
            put_unsigned(out, *latitude as u64);
            put_unsigned(out, *longitude as u64);
            put_point(out, *from);
        }
    }
    put_unsigned(out, query.limit);
    out.push(u8::from(query.after.is_some()));
    if let Some(RankPlace { score, key }) = &query.after {
        put_value(out, ValueRef::Float(*score));
        put_value(out, key.as_ref());
    }
    out.push(u8::from(query.fields.is_some()));
    if let Some(fields) = query.fields {
        put_fields(out, fields);
    }
}

impl Bytes<'_> {
    /// Reads a ranked query of a table with `count` fields.
    pub(crate) fn ranked(&mut self, count: usize) -> Result<RankedQuery> {
        let filter = self.filter_option()?;
        let by = match self.u8()? {
            RELEVANCE => {
                let searches = self.count()?;
                if searches > FILTER_TERMS_MAX {
                    return Err(broken("ranks by too many searches"));
                }
                let search = |_| {
                    let fields = self.fields(count)?;
                    Ok(RankedSearch { fields, search: Search::new(self.text()?) })
                };
                Ranking::Relevance((0..searches).map(search).collect::<Result<_>>()?)
            }
            NEAREST => {
                let field = self.size()?;
                let metric = Metric::ALL.get(usize::from(self.u8()?)).copied();
                let metric = metric.ok_or_else(|| broken("has an unknown distance"))?;
                let ValueRef::Blob(bytes) = self.checked_value()? else {
                    return Err(broken("has a vector that is not bytes"));
                };
                let (numbers, rest) = bytes.as_chunks();
                if !rest.is_empty() {
                    return Err(broken("has a vector with a part of a number"));
                }
                let to = numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
                Ranking::Nearest { field, to, metric }
            }
            DISTANCE => {
                let (latitude, longitude) = (self.size()?, self.size()?);
                Ranking::Distance { latitude, longitude, from: self.point()? }
            }
            _ => return Err(broken("has an unknown ranking")),
        };
        let limit = self.unsigned()?;
        let after = match self.bool()? {
            false => None,
            true => {
                let ValueRef::Float(score) = self.checked_value()? else {
                    return Err(broken("starts after a score that is not a number"));
                };
                Some(RankPlace { score, key: self.checked_value()?.to_value() })
            }
        };
        let fields = if self.bool()? { Some(self.fields(count)?) } else { None };
        Ok(RankedQuery { filter, by, limit, after, fields })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::any_value::any_value;
    use crate::codec::query::tests::any_point;
    use proptest::prelude::*;

    fn any_ranking() -> impl Strategy<Value = Ranking> {
        let search =
            (prop::collection::vec(0..100_usize, 0..4), ".{0,9}").prop_map(|(fields, search)| {
                RankedSearch { fields: fields.into_iter().collect(), search: Search::new(&search) }
            });
        let to = prop::collection::vec(prop::num::f32::NORMAL, 0..40);
        let nearest = (0..100_usize, to, 0..Metric::ALL.len()).prop_map(|(field, to, metric)| {
            Ranking::Nearest { field, to: to.into(), metric: Metric::ALL[metric] }
        });
        let distance =
            (0..100_usize, 0..100_usize, any_point()).prop_map(|(latitude, longitude, from)| {
                Ranking::Distance { latitude, longitude, from }
            });
        prop_oneof![
            prop::collection::vec(search, 0..4).prop_map(Ranking::Relevance),
            nearest,
            distance,
        ]
    }

    proptest! {
        #[test]
        fn ranked_queries_come_back(
            by in any_ranking(),
            limit: u64,
            after in prop::option::of((prop::num::f64::NORMAL, any_value())),
            fields in prop::option::of(prop::collection::vec(0..100_usize, 0..9)),
        ) {
            let after = after.map(|(score, key)| RankPlace { score, key });
            let fields = fields.map(|fields| fields.into_iter().collect());
            let query = RankedQuery { filter: None, by, limit, after, fields };
            let mut out = Vec::new();
            put_ranked(&mut out, &query);
            let mut read = Bytes::new(&out);
            prop_assert_eq!(read.ranked(100).unwrap(), query);
            read.end().unwrap();
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = Bytes::new(&bytes).ranked(7);
        }
    }
}
