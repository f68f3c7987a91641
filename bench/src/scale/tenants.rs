//! Tenants: a database for each, of which at most 64 are open at once. With more of them, each use of
//! the next one opens its database.

use anyhow::{Result, anyhow};
use marmota_store::Tenants;

use super::Dimension;
use super::growth::Growth;
use super::point::{Point, once, repeated, resident};
use super::rows::subject::{Item, builder, item};

pub(super) const DIMENSION: Dimension =
    Dimension { unit: "tenants", sizes: (1, 10, 10_000), engines: &["sqlite"], measure };

fn measure(engine: &str, tenants: u64) -> Result<Vec<Point>> {
    let folder = tempfile::tempdir()?;
    let (engine, path) = (engine.to_owned(), folder.path().display().to_string());
    let before = resident()?;
    let all = Tenants::new(move |tenant| {
        let url = format!("{engine}:{path}/{tenant}.db?durability=relaxed");
        let builder = builder(&url).map_err(|error| {
            marmota_model::Error::new(marmota_model::ErrorKind::Invalid, error.to_string())
        })?;
        builder.model::<Item>().open()
    });
    let write = |tenant: u64| {
        let store = all.get(&format!("tenant-{tenant}"))?;
        Ok::<(), anyhow::Error>(store.insert(&item(tenant)).run().map(drop)?)
    };
    let first = once(|| (0..tenants).try_for_each(write))?;
    let again = repeated(tenants.clamp(100, 500), |turn| write(turn % tenants))?;
    let memory = resident()?.saturating_sub(before);
    let open = repeated(2_000, |_| write(0))?;
    all.close().map_err(|error| anyhow!("{error}"))?;
    let each = u32::try_from(tenants).map_or(first, |tenants| first / tenants);
    Ok(vec![
        Point::time("make a tenant's database", Growth::Constant, each),
        Point::time("insert for each tenant in turn", Growth::Constant, again),
        Point::time("insert for one tenant", Growth::Constant, open),
        Point::bytes("memory", Growth::Linear, memory),
    ])
}
