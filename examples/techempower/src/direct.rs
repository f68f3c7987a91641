//! The routes below the ORM: operations as data, and rows that are read where the engine has them. A
//! custom verb is an operation and a function of its rows.

use std::ops::ControlFlow;
use std::sync::Arc;

use marmota::model::{NoRows, RowQuery, RowSink, RowSource, Table, ValueRef};
use marmota::prelude::*;
use marmota::store::Store;
use marmota::store::action::{Action, Verb, all};
use marmota::store::operation::{Operation, Outcome};

use crate::answer::{json, page};
use crate::data::{Data, World};
use crate::number::{random_number, rows, world_id, world_ids};

pub(crate) fn routes(router: Router, data: &Data) -> Result<Router> {
    let direct = Direct {
        data: data.clone(),
        world: data.store.table("world")?,
        fortune: data.store.table("fortune")?,
    };
    let shared = || direct.clone();
    let (db, queries, cached, updates, fortunes) =
        (shared(), shared(), shared(), shared(), shared());
    Ok(router
        .get("/rawdb", move |_| {
            let direct = db.clone();
            async move { json(&direct.world(world_id()).await?) }
        })
        .get("/rawqueries", move |request: Request| {
            let direct = queries.clone();
            async move {
                json(&direct.worlds((0..rows(&request, "queries")).map(|_| world_id())).await?)
            }
        })
        .get("/rawcached", move |request: Request| {
            let cached = Arc::clone(&cached.data.cached);
            async move {
                let chosen = (0..rows(&request, "count")).map(|_| &cached[world_id() as usize - 1]);
                json(&chosen.collect::<Vec<_>>())
            }
        })
        .get("/rawupdates", move |request: Request| {
            let direct = updates.clone();
            async move {
                let mut worlds = direct.worlds(world_ids(rows(&request, "queries"))).await?;
                worlds.iter_mut().for_each(|world| world.random_number = random_number());
                let table = &*direct.world;
                direct.data.store.action(Write { table, worlds: &worlds }).await?;
                json(&worlds)
            }
        })
        .get("/rawfortunes", move |_| {
            let direct = fortunes.clone();
            async move {
                let fortunes =
                    Fortunes { table: &direct.fortune, texts: String::new(), ends: Vec::new() };
                let (texts, ends) = direct.data.store.action(fortunes).await?;
                let starts = std::iter::once(0).chain(ends.iter().map(|(_, end)| *end));
                page(starts.zip(&ends).map(|(start, (id, end))| (*id, &texts[start..*end])))
            }
        }))
}

/// The tables, looked up once.
#[derive(Clone)]
struct Direct {
    data: Data,
    world: Arc<Table>,
    fortune: Arc<Table>,
}

impl Direct {
    fn world(&self, id: i64) -> Action<'_, Read<'_>> {
        self.data.store.action(Read { table: &self.world, id, number: None })
    }

    /// Reads rows with one query each, all in flight at once.
    async fn worlds(&self, ids: impl IntoIterator<Item = i64>) -> Result<Vec<World>> {
        all(ids.into_iter().map(|id| self.world(id))).await
    }
}

/// The function to which a verb passes its operation.
type Call<'c> = dyn FnMut(&mut Operation<'_>, &mut dyn RowSink) -> Result<()> + 'c;

/// Reads the number of a row of `world`.
struct Read<'t> {
    table: &'t Table,
    id: i64,
    number: Option<i32>,
}

impl Verb for Read<'_> {
    type Output = World;

    fn operate(&mut self, _: &Store, call: &mut Call<'_>) -> Result<()> {
        let Self { table, id, number } = self;
        let fields = table.read_by_default();
        let mut operation = Operation::Get { table, key: ValueRef::Int(*id), fields };
        call(&mut operation, &mut |row: &[ValueRef<'_>]| {
            if let [_, ValueRef::Int(found)] = row {
                *number = i32::try_from(*found).ok();
            }
            ControlFlow::Break(())
        })
    }

    fn finish(&mut self, _: &Store, _: &mut Outcome) -> Result<World> {
        let id = self.id;
        let none = || Error::new(ErrorKind::NotFound, format!("no world has the id {id}"));
        Ok(World { id, random_number: self.number.ok_or_else(none)? })
    }
}

/// Writes new numbers to rows of `world` in one operation.
struct Write<'w> {
    table: &'w Table,
    worlds: &'w [World],
}

/// The rows of [`Write`].
struct Numbers<'w>(&'w [World]);

impl<'a> RowSource<'a> for Numbers<'_> {
    fn remaining(&self) -> usize {
        self.0.len()
    }

    fn next(&mut self, row: &mut [ValueRef<'a>]) -> Result<bool> {
        let Some((World { id, random_number }, rest)) = self.0.split_first() else {
            return Ok(false);
        };
        self.0 = rest;
        row.copy_from_slice(&[ValueRef::Int(*id), ValueRef::Int((*random_number).into())]);
        Ok(true)
    }
}

impl Verb for Write<'_> {
    type Output = ();

    fn operate(&mut self, _: &Store, call: &mut Call<'_>) -> Result<()> {
        let mut rows = Numbers(self.worlds);
        call(&mut Operation::UpdateMany { table: self.table, rows: &mut rows }, &mut NoRows)
    }

    fn finish(&mut self, _: &Store, _: &mut Outcome) -> Result<()> {
        Ok(())
    }
}

/// Reads all messages into one text, with the end and the id of each.
struct Fortunes<'t> {
    table: &'t Table,
    texts: String,
    ends: Vec<(i64, usize)>,
}

impl Verb for Fortunes<'_> {
    type Output = (String, Vec<(i64, usize)>);

    fn operate(&mut self, _: &Store, call: &mut Call<'_>) -> Result<()> {
        let (query, Self { table, texts, ends }) = (RowQuery::new(), self);
        call(&mut Operation::List { table, query: &query }, &mut |row: &[ValueRef<'_>]| {
            if let [ValueRef::Int(id), ValueRef::Text(message)] = row {
                texts.push_str(message);
                ends.push((*id, texts.len()));
            }
            ControlFlow::Continue(())
        })
    }

    fn finish(&mut self, _: &Store, _: &mut Outcome) -> Result<Self::Output> {
        Ok((std::mem::take(&mut self.texts), std::mem::take(&mut self.ends)))
    }
}
