//! Aggregation: a pipeline of stages over the documents of a model, on an engine whose rows are
//! documents. A pipeline is raw, like SQL ([`crate::sql`]): its syntax is the engine's. An engine
//! that supports it declares so in its [`Capability`](crate::engine::Capability).

use std::fmt::Display;
use std::marker::PhantomData;
use std::ops::ControlFlow;

use marmota_model::{Error, ErrorKind, Model, Result, RowSink, ValueRef};
use serde::de::DeserializeOwned;

use crate::contract::capability::no_aggregation;
use crate::contract::operation::{Operation, Outcome};
use crate::store::Store;
use crate::verbs::action::{Action, Verb};

/// The maximum size of a pipeline in bytes.
const PIPELINE_BYTES_MAX: usize = 1 << 20;

/// The verb of [`Store::aggregate`]: it reads each document of the result with serde.
#[derive(Debug)]
pub struct Aggregate<M, T> {
    pipeline: String,
    read: Vec<T>,
    error: Option<Error>,
    model: PhantomData<fn() -> M>,
}

impl<M, T> Unpin for Aggregate<M, T> {}

impl<M: Model, T: DeserializeOwned> Verb for Aggregate<M, T> {
    type Output = Vec<T>;

    fn operate(
        &mut self,
        store: &Store,
        call: &mut dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()>,
    ) -> Result<()> {
        let table = store.registry().of::<M>()?;
        let capability = store.capability();
        if !capability.aggregation {
            return Err(no_aggregation(capability.name));
        }
        let Self { pipeline, read, error, .. } = self;
        if pipeline.len() > PIPELINE_BYTES_MAX {
            let message = format!(
                "the pipeline has {} bytes; at most {PIPELINE_BYTES_MAX} are allowed",
                pipeline.len()
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let mut sink = |row: &[ValueRef<'_>]| {
            let text = match row {
                [ValueRef::Json(text)] => *text,
                _ => "null",
            };
            match serde_json::from_str(text) {
                Ok(one) => {
                    read.push(one);
                    ControlFlow::Continue(())
                }
                Err(why) => {
                    let text = marmota_model::text::excerpt(text);
                    let message = format!("the pipeline's document {text} cannot be read: {why}");
                    *error = Some(Error::new(ErrorKind::Engine, message));
                    ControlFlow::Break(())
                }
            }
        };
        call(&mut Operation::Aggregate { table, pipeline }, &mut sink)
    }

    fn finish(&mut self, _: &Store, _: &mut Outcome) -> Result<Vec<T>> {
        match self.error.take() {
            Some(error) => Err(error),
            None => Ok(std::mem::take(&mut self.read)),
        }
    }
}

impl Store {
    /// Runs an aggregation pipeline over the documents of a model, on an engine that supports it
    /// (MongoDB). The pipeline is a JSON array of stages, as text or as anything that implements
    /// `Display`. Each document of the result is read as a `T`.
    ///
    /// A pipeline only reads. It works on documents as they are stored: members have the names of
    /// fields, an amount is stored as whole ten-thousandths. It is refused under rights, because it
    /// would bypass them.
    ///
    /// ```
    /// # use marmota_derive::Model;
    /// # use marmota_store::Store;
    /// # #[derive(Clone, Debug, PartialEq, Model)]
    /// # struct City { id: i64, country: String, people: i64 }
    /// #[derive(serde::Deserialize)]
    /// struct Country {
    ///     _id: String,
    ///     people: i64,
    /// }
    ///
    /// # fn examples(store: &Store) -> marmota_model::Result<()> {
    /// let pipeline = r#"[{"$group": {"_id": "$country", "people": {"$sum": "$people"}}}]"#;
    /// let countries: Vec<Country> = store.aggregate::<City, _>(pipeline).run()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the engine has no aggregation, [`ErrorKind::Invalid`] if the
    /// text is not a pipeline or a stage writes, [`ErrorKind::Engine`] if a document cannot be read
    /// as a `T`; otherwise the engine's error.
    pub fn aggregate<M: Model, T: DeserializeOwned>(
        &self,
        pipeline: impl Display,
    ) -> Action<'_, Aggregate<M, T>> {
        let pipeline = pipeline.to_string();
        let (read, error, model) = (Vec::new(), None, PhantomData);
        Action::new(self, Aggregate { pipeline, read, error, model })
    }
}
