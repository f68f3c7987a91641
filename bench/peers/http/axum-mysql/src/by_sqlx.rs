//! The statements by sqlx.

use crate::{Database, FORTUNES, WORLD, update_of};
use sqlx::mysql::{MySqlConnectOptions, MySqlPool, MySqlPoolOptions};
use sqlx::{AssertSqlSafe, Error};
use world::{Fortune, World};

/// A pool of connections, which keep their prepared statements.
pub(crate) struct Pool(MySqlPool);

impl Database for Pool {
    type Error = Error;

    fn open(url: &str, connections: usize) -> Result<Self, Error> {
        let options: MySqlConnectOptions = url.parse()?;
        let pool = MySqlPoolOptions::new()
            .max_connections(u32::try_from(connections).unwrap_or(u32::MAX))
            .test_before_acquire(false);
        Ok(Self(pool.connect_lazy_with(options.statement_cache_capacity(600))))
    }

    async fn worlds(&self, ids: Vec<i32>) -> Result<Vec<World>, Error> {
        let mut connection = self.0.acquire().await?;
        let mut worlds = Vec::with_capacity(ids.len());
        for id in ids {
            let read = sqlx::query_as(WORLD).bind(id).fetch_one(&mut *connection);
            let (id, random_number) = read.await?;
            worlds.push(World { id, random_number });
        }
        Ok(worlds)
    }

    async fn update(&self, ids: Vec<i32>) -> Result<Vec<World>, Error> {
        let mut worlds = self.worlds(ids).await?;
        let (text, values) = update_of(&mut worlds);
        let statement = sqlx::query(AssertSqlSafe(text));
        values.into_iter().fold(statement, |all, value| all.bind(value)).execute(&self.0).await?;
        Ok(worlds)
    }

    async fn fortunes(&self) -> Result<Vec<Fortune>, Error> {
        let rows: Vec<(i32, String)> = sqlx::query_as(FORTUNES).fetch_all(&self.0).await?;
        Ok(rows.into_iter().map(|(id, message)| Fortune { id, message }).collect())
    }
}
