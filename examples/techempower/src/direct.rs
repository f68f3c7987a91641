//! The routes below the ORM: operations as data, and rows that go from the
//! engine into the answer without becoming structs.

use std::ops::ControlFlow;
use std::sync::Arc;

use marmota::http::{Flow, Method, ResponseWriter};
use marmota::model::{NoRows, Query, RowSource, Table, ValueRef, json};
use marmota::prelude::*;
use marmota::rest::problem;
use marmota::store::operation::Operation;

use crate::data::Data;
use crate::fortune::{Line, write_page};
use crate::number::{random_number, rows, world_id};

pub(crate) fn routes(router: Router, data: &Data) -> Result<Router> {
    let direct = Arc::new(Direct {
        data: data.clone(),
        world: data.store.table("world")?,
        fortune: data.store.table("fortune")?,
    });
    let answers: [(&str, Answer); 5] = [
        ("/rawdb", db),
        ("/rawqueries", queries),
        ("/rawcached", cached),
        ("/rawupdates", updates),
        ("/rawfortunes", fortunes),
    ];
    Ok(answers.into_iter().fold(router, |router, (path, answer)| {
        let direct = Arc::clone(&direct);
        router.direct(Method::Get, path, move |request, out| {
            if let Err(error) = answer(&direct, request, out) {
                out.respond(problem(&error));
            }
            Flow::Done
        })
    }))
}

type Answer = fn(&Direct, &Request, &mut ResponseWriter<'_>) -> Result<()>;

/// The tables, looked up once.
struct Direct {
    data: Data,
    world: Arc<Table>,
    fortune: Arc<Table>,
}

impl Direct {
    /// Lends the row of `world` with this id to `sink`.
    fn world(&self, id: i64, mut sink: impl FnMut(&[ValueRef<'_>])) -> Result<()> {
        let table = &*self.world;
        let mut operation =
            Operation::Get { table, key: ValueRef::Int(id), fields: table.read_by_default() };
        let mut take = |row: &[ValueRef<'_>]| {
            sink(row);
            ControlFlow::Break(())
        };
        self.data.store.run(&mut operation, &mut take).map(|_| ())
    }
}

fn db(direct: &Direct, _: &Request, out: &mut ResponseWriter<'_>) -> Result<()> {
    let body = out.content_type("application/json").body_mut();
    let table = &direct.world;
    direct.world(world_id(), |row| json::write_row(body, table, table.all(), row))
}

fn queries(direct: &Direct, request: &Request, out: &mut ResponseWriter<'_>) -> Result<()> {
    let table = &direct.world;
    let body = out.content_type("application/json").body_mut();
    body.push(b'[');
    for number in 0..rows(request, "queries") {
        if number > 0 {
            body.push(b',');
        }
        direct.world(world_id(), |row| json::write_row(body, table, table.all(), row))?;
    }
    body.push(b']');
    Ok(())
}

fn cached(direct: &Direct, request: &Request, out: &mut ResponseWriter<'_>) -> Result<()> {
    let worlds = &direct.data.cached;
    let count = rows(request, "count");
    let chosen: Vec<_> = (0..count).map(|_| &worlds[world_id() as usize - 1]).collect();
    let body = out.content_type("application/json").body_mut();
    serde_json::to_writer(body, &chosen).map_err(|error| std::io::Error::from(error).into())
}

/// New numbers for rows of `world`, as a source of rows to write.
struct Numbers<'a> {
    numbers: &'a [(i64, i32)],
}

impl<'a> RowSource<'a> for Numbers<'a> {
    fn remaining(&self) -> usize {
        self.numbers.len()
    }

    fn next(&mut self, row: &mut [ValueRef<'a>]) -> Result<bool> {
        let Some(((id, number), rest)) = self.numbers.split_first() else { return Ok(false) };
        self.numbers = rest;
        row.copy_from_slice(&[ValueRef::Int(*id), ValueRef::Int(i64::from(*number))]);
        Ok(true)
    }
}

fn updates(direct: &Direct, request: &Request, out: &mut ResponseWriter<'_>) -> Result<()> {
    let mut numbers = Vec::with_capacity(rows(request, "queries"));
    for _ in 0..rows(request, "queries") {
        direct.world(world_id(), |row| {
            if let ValueRef::Int(id) = row[0] {
                numbers.push((id, random_number()));
            }
        })?;
    }
    let table = &*direct.world;
    let mut source = Numbers { numbers: &numbers };
    let mut operation = Operation::UpdateMany { table, rows: &mut source };
    direct.data.store.run(&mut operation, &mut NoRows)?;
    let body = out.content_type("application/json").body_mut();
    body.push(b'[');
    for (place, (id, number)) in numbers.iter().enumerate() {
        if place > 0 {
            body.push(b',');
        }
        let row = [ValueRef::Int(*id), ValueRef::Int(i64::from(*number))];
        json::write_row(body, table, table.all(), &row);
    }
    body.push(b']');
    Ok(())
}

fn fortunes(direct: &Direct, _: &Request, out: &mut ResponseWriter<'_>) -> Result<()> {
    let mut texts = String::new();
    let mut ends = Vec::with_capacity(16);
    let mut sink = |row: &[ValueRef<'_>]| {
        if let [ValueRef::Int(id), ValueRef::Text(message)] = row {
            texts.push_str(message);
            ends.push((*id, texts.len()));
        }
        ControlFlow::Continue(())
    };
    let query = Query::new();
    let mut operation = Operation::List { table: &direct.fortune, query: &query };
    direct.data.store.run(&mut operation, &mut sink)?;
    let starts = std::iter::once(0).chain(ends.iter().map(|(_, end)| *end));
    let lines =
        starts.zip(&ends).map(|(start, (id, end))| Line { id: *id, message: &texts[start..*end] });
    let body = out.content_type("text/html; charset=utf-8").body_mut();
    Ok(write_page(lines.collect(), body)?)
}
