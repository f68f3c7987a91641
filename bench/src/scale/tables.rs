//! The tables of a store.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use marmota_model::{Field, Kind, Record, Role, Schema};
use marmota_store::{Store, StoreBuilder};

use super::Dimension;
use super::growth::Growth;
use super::point::{Point, once, repeated, resident};
use super::rows::subject::{ENGINES, builder, place};

pub(super) const DIMENSION: Dimension =
    Dimension { unit: "tables", sizes: (10, 10, 1_000), engines: &ENGINES, measure };

fn schema(number: u64) -> Schema {
    let mut fields = vec![Field::new("id", Kind::I64).role(Role::Key)];
    let columns = ["name", "place", "note", "state", "owner", "colour", "label", "code"];
    fields.extend(columns.map(|name| Field::new(name, Kind::TEXT).nullable(true)));
    Schema::new(format!("table_{number}"), fields)
}

fn with_tables(builder: StoreBuilder, tables: u64) -> StoreBuilder {
    (0..tables).map(schema).fold(builder, StoreBuilder::schema)
}

fn measure(engine: &str, tables: u64) -> Result<Vec<Point>> {
    let folder = tempfile::tempdir()?;
    let (url, _server) = place(engine, folder.path())?;
    let before = resident()?;
    let mut store: Option<Store> = None;
    let create = once(|| {
        store = Some(with_tables(builder(&url)?, tables).open()?);
        Ok(())
    })?;
    let memory = resident()?.saturating_sub(before);
    let opened = store.take().context("it is open")?;
    let last = opened.table(&format!("table_{}", tables - 1))?;
    let mut row = Record::new(Arc::clone(&last));
    row.set("name", "a name")?;
    let key = opened.insert_record(&row).run()?;
    let get = repeated(2_000, |_| {
        opened.get_record(&last, key.clone()).run()?;
        Ok(())
    })?;
    opened.close()?;
    let again = once(|| {
        store = Some(with_tables(builder(&url)?, tables).open()?);
        Ok(())
    })?;
    if let Some(store) = store {
        store.close()?;
    }
    Ok(vec![
        Point::time("make the tables", Growth::Linear, create),
        Point::time("open the store again", Growth::Linear, again),
        Point::bytes("memory", Growth::Linear, memory),
        Point::time("get by key", Growth::Constant, get),
    ])
}
