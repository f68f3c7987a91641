//! The verbs that read rows in a computed order, best rows first.

use marmota_model::{
    Column, Coordinate, Error, Filter, GeoPoint, Metric, Model, RankPlace, RankedQuery, Ranker,
    Ranking, Result, RowSink, Scratch, Value, ValueRef, Vector, VectorField,
};

use super::{ListModels, Many, narrow};
use crate::contract::operation::{Operation, Outcome};
use crate::store::Store;
use crate::verbs::action::{Action, Verb};

/// The verb of [`Action::ranked`]: the best rows, best first.
pub struct ListRanked<M> {
    query: RankedQuery,
    /// The first error of the list.
    refused: Option<Error>,
    many: Many<M>,
    scores: Option<(Ranker, Vec<f64>)>,
}

/// The verb of [`Action::scores`]: the best rows, each with its score.
pub struct ListScored<M>(ListRanked<M>);

impl<M> Unpin for ListRanked<M> {}
impl<M> Unpin for ListScored<M> {}

impl<M: Model> ListRanked<M> {
    /// Creates the verb for the rows of a list.
    fn new(rows: &ListModels<M>, by: Result<Ranking>) -> Self {
        let (by, refused) = match by {
            Ok(by) => (by, None),
            Err(error) => (Ranking::Relevance(Vec::new()), Some(error)),
        };
        let mut query = RankedQuery::new(by);
        query.filter.clone_from(&rows.query.filter);
        query.fields = rows.query.fields;
        query.limit = rows.query.limit.unwrap_or(query.limit);
        let refused = refused.or_else(|| match rows.query.order.is_empty() {
            true => None,
            false => {
                let message = "a ranked list has no other order; leave out `order`";
                Some(Error::new(marmota_model::ErrorKind::Invalid, message))
            }
        });
        Self { query, refused, many: Many { rows: Vec::new(), error: None }, scores: None }
    }
}

impl<M: Model> Verb for ListRanked<M> {
    type Output = Vec<M>;

    fn operate(
        &mut self,
        store: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        if let Some(error) = self.refused.take() {
            return Err(error);
        }
        let table = store.registry().of::<M>()?;
        self.query.check(table)?;
        let Self { query, many, scores, .. } = self;
        let mut sink = |row: &[ValueRef<'_>]| {
            if let Some((ranker, scores)) = scores {
                scores.push(ranker.score(row).unwrap_or_default());
            }
            many.row(row)
        };
        call(&mut Operation::ListRanked { table, query }, &mut sink)
    }

    fn finish(&mut self, _: &Store, _: &mut Outcome) -> Result<Vec<M>> {
        match self.many.error.take() {
            Some(error) => Err(error),
            None => Ok(std::mem::take(&mut self.many.rows)),
        }
    }
}

impl<M: Model> Verb for ListScored<M> {
    type Output = Vec<(M, f64)>;

    fn operate(
        &mut self,
        store: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        self.0.operate(store, call)
    }

    fn finish(&mut self, store: &Store, outcome: &mut Outcome) -> Result<Self::Output> {
        let rows = self.0.finish(store, outcome)?;
        let scores = self.0.scores.take().map_or(Vec::new(), |(_, scores)| scores);
        Ok(rows.into_iter().zip(scores).collect())
    }
}

impl<'s, M: Model> Action<'s, ListModels<M>> {
    /// Sorts by relevance for the searches of the filter, best rows first. Set the filter before.
    /// Default limit: 100 rows.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct Note { id: i64, #[model(search)] text: String }
    /// # let note = |text: &str| Note { id: 0, text: text.to_owned() };
    /// # let store = Store::builder(Memory::new()).model::<Note>().open()?;
    /// store.insert_many(&[note("The dog saw a marmot"), note("Marmots: the marmot")]).run()?;
    /// let found = store.list::<Note>().filter(Note::TEXT.search("marmot")).ranked().run()?;
    /// assert_eq!(found[0].id, 2);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn ranked(self) -> Action<'s, ListRanked<M>> {
        let table = self.store.registry().of::<M>();
        let by = table.and_then(|table| Ranking::relevance(table, self.verb.query.filter.as_ref()));
        Action::new(self.store, ListRanked::new(&self.verb, by))
    }
}

impl<'s, M: Model> Action<'s, ListModels<M>> {
    /// Sorts by the distance of a vector field to a vector, nearest rows first. Rows without a
    /// vector are left out. Default limit: 100 rows.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// use marmota_model::{Metric, Vector};
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct Photo { id: i64, embedding: Option<Vector<2>> }
    /// # let store = Store::builder(Memory::new()).model::<Photo>().open()?;
    /// let photo = |embedding: [f32; 2]| Photo { id: 0, embedding: Some(embedding.into()) };
    /// store.insert_many(&[photo([1.0, 0.0]), photo([0.0, 1.0])]).run()?;
    /// let query = Vector::from([0.1, 0.9]);
    /// let near = store.list::<Photo>().nearest(Photo::EMBEDDING, &query, Metric::Cosine);
    /// assert_eq!(near.limit(1).run()?[0].id, 2);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn nearest<const N: usize, T: VectorField<N>>(
        self,
        column: Column<M, T>,
        to: &Vector<N>,
        metric: Metric,
    ) -> Action<'s, ListRanked<M>> {
        let table = self.store.registry().of::<M>();
        let by = table
            .and_then(|table| Ranking::nearest(table, column.position(), &to.to_vec(), metric));
        Action::new(self.store, ListRanked::new(&self.verb, by))
    }
}

impl<'s, M: Model> Action<'s, ListModels<M>> {
    /// Sorts by the distance of a point, of the columns of its latitude and longitude, nearest rows
    /// first. Rows without both are left out. The scores are in metres. Default limit: 100 rows.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// use marmota_model::GeoPoint;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct Shop { id: i64, lat: f64, lon: f64 }
    /// # let store = Store::builder(Memory::new()).model::<Shop>().open()?;
    /// let shop = |lat, lon| Shop { id: 0, lat, lon };
    /// store.insert_many(&[shop(52.52, 13.40), shop(48.14, 11.58)]).run()?;
    /// let here = GeoPoint::new(48.2, 16.4)?;
    /// let near = store.list::<Shop>().by_distance(Shop::LAT, Shop::LON, here);
    /// assert_eq!(near.limit(1).run()?[0].id, 2);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn by_distance<T: Coordinate, U: Coordinate>(
        self,
        latitude: Column<M, T>,
        longitude: Column<M, U>,
        from: GeoPoint,
    ) -> Action<'s, ListRanked<M>> {
        let table = self.store.registry().of::<M>();
        let (latitude, longitude) = (latitude.position(), longitude.position());
        let by = table.and_then(|table| Ranking::distance(table, latitude, longitude, from));
        Action::new(self.store, ListRanked::new(&self.verb, by))
    }
}

impl<'s, M: Model> Action<'s, ListRanked<M>> {
    /// Selects rows that match the filter, and those set before. The filter does not change the
    /// order.
    pub fn filter(mut self, filter: Filter<M>) -> Self {
        narrow(&mut self.verb.query.filter, filter.into_expr());
        self
    }

    /// Reads at most this many rows, up to 10,000. Default: 100.
    pub fn limit(mut self, rows: u64) -> Self {
        self.verb.query.limit = rows;
        self
    }

    /// Continues after `last` in the list's order: the next page.
    pub fn after(mut self, last: &M) -> Self {
        let (schema, scratch) = (M::schema(), Scratch::new());
        let mut row = vec![ValueRef::Absent; schema.fields.len()];
        last.write(&mut row, &scratch);
        let key: Value = row[schema.key].to_value();
        let score = Ranker::new(schema, self.verb.query.by.clone()).score(&row).unwrap_or(f64::NAN);
        self.verb.query.after = Some(RankPlace { score, key });
        self
    }

    /// Returns each row with its score.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct Note { id: i64, #[model(search)] text: String }
    /// # let store = Store::builder(Memory::new()).model::<Note>().open()?;
    /// store.insert(&Note { id: 0, text: "A marmot".into() }).run()?;
    /// let found = store.list::<Note>().filter(Note::TEXT.search("marmot")).ranked().scores().run()?;
    /// assert!(found[0].1 > 0.0);
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    pub fn scores(mut self) -> Action<'s, ListScored<M>> {
        // Nothing was submitted yet, so nothing has to be cancelled.
        let (query, refused) = (self.verb.query.clone(), self.verb.refused.take());
        let many = Many { rows: Vec::new(), error: None };
        let scores = Some((Ranker::new(M::schema(), query.by.clone()), Vec::new()));
        Action::new(self.store, ListScored(ListRanked { query, refused, many, scores }))
    }
}
