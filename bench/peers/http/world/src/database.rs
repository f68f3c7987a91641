//! A pipelined connection of tokio-postgres with its prepared statements.

use crate::{FORTUNES, Fortune, UPDATE, WORLD, World, random, updates};
use futures_util::TryStreamExt;
use futures_util::future::try_join_all;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, NoTls, Statement};

/// A pipelined connection with the prepared statements of the benchmark.
pub struct Database {
    client: Client,
    world: Statement,
    fortune: Statement,
    update: Statement,
}

impl Database {
    /// Connects and spawns the connection's task. Must be called in a `LocalSet`.
    pub async fn connect(url: &str) -> Result<Database, Error> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::task::spawn_local(async move {
            if let Err(error) = connection.await {
                eprintln!("database connection: {error}");
            }
        });
        Ok(Database {
            world: client.prepare_typed(WORLD, &[Type::INT4]).await?,
            fortune: client.prepare(FORTUNES).await?,
            update: client.prepare(UPDATE).await?,
            client,
        })
    }

    /// Returns a random row.
    pub async fn world(&self) -> Result<World, Error> {
        let row = self.client.query_one(&self.world, &[&random()]).await?;
        Ok(World { id: row.get(0), random_number: row.get(1) })
    }

    /// Returns random rows, with one query per row.
    pub async fn worlds(&self, count: usize) -> Result<Vec<World>, Error> {
        try_join_all((0..count).map(|_| self.world())).await
    }

    /// Returns random rows after giving them new random numbers.
    pub async fn update(&self, count: usize) -> Result<Vec<World>, Error> {
        let mut worlds = self.worlds(count).await?;
        let (ids, numbers) = updates(&mut worlds);
        self.client.execute(&self.update, &[&ids, &numbers]).await?;
        Ok(worlds)
    }

    /// Returns all fortunes.
    pub async fn fortunes(&self) -> Result<Vec<Fortune>, Error> {
        let none: [&(dyn ToSql + Sync); 0] = [];
        let rows = self.client.query_raw(&self.fortune, none).await?;
        rows.map_ok(|row| Fortune { id: row.get(0), message: row.get(1) }).try_collect().await
    }
}
