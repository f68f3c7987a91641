//! A pipelined connection of xitca-postgres with its prepared statements.

use world::{FORTUNES, Fortune, UPDATE, WORLD, World, random, updates};
use xitca_postgres::iter::AsyncLendingIterator;
use xitca_postgres::types::Type;
use xitca_postgres::{Client, Error, Execute, Postgres, RowStream, Statement};

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
        let (client, driver) = Postgres::new(url.to_owned()).connect().await?;
        tokio::task::spawn_local(std::future::IntoFuture::into_future(driver));
        let prepare = async |text, types| -> Result<Statement, Error> {
            Ok(Statement::named(text, types).execute(&client).await?.leak())
        };
        Ok(Database {
            world: prepare(WORLD, &[Type::INT4]).await?,
            fortune: prepare(FORTUNES, &[]).await?,
            update: prepare(UPDATE, &[]).await?,
            client,
        })
    }

    async fn ask(&self) -> Result<RowStream<'_>, Error> {
        self.world.bind([random()]).query(&self.client).await
    }

    /// Returns a random row.
    pub async fn world(&self) -> Result<World, Error> {
        read(self.ask().await?).await
    }

    /// Returns random rows, with one query per row; all queries are sent before the first result is
    /// awaited.
    pub async fn worlds(&self, count: usize) -> Result<Vec<World>, Error> {
        let mut asked = Vec::with_capacity(count);
        for _ in 0..count {
            asked.push(self.ask().await?);
        }
        let mut worlds = Vec::with_capacity(count);
        for rows in asked {
            worlds.push(read(rows).await?);
        }
        Ok(worlds)
    }

    /// Returns random rows after giving them new random numbers.
    pub async fn update(&self, count: usize) -> Result<Vec<World>, Error> {
        let mut worlds = self.worlds(count).await?;
        let (ids, numbers) = updates(&mut worlds);
        self.update.bind_dyn(&[&ids, &numbers]).execute(&self.client).await?;
        Ok(worlds)
    }

    /// Returns all fortunes.
    pub async fn fortunes(&self) -> Result<Vec<Fortune>, Error> {
        let mut rows = self.fortune.query(&self.client).await?;
        let mut fortunes = Vec::with_capacity(16);
        while let Some(row) = rows.try_next().await? {
            fortunes.push(Fortune { id: row.get(0), message: row.get(1) });
        }
        Ok(fortunes)
    }
}

async fn read(mut rows: RowStream<'_>) -> Result<World, Error> {
    let row = rows.try_next().await?.expect("every key has a row");
    Ok(World { id: row.get(0), random_number: row.get(1) })
}
