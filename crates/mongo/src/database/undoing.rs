//! Undoes changes, where the server cannot do that by itself.

use marmota_model::Result;

use super::Database;
use super::undo_steps::UndoStep;

impl Database {
    /// Undoes changes of a collection in reverse order.
    pub(crate) async fn undo(&self, collection: &str, mut steps: Vec<UndoStep>) -> Result<()> {
        while let Some(step) = steps.pop() {
            match step {
                UndoStep::Inserted(key) => {
                    let mut keys = vec![key];
                    while let Some(UndoStep::Inserted(_)) = steps.last() {
                        if let Some(UndoStep::Inserted(key)) = steps.pop() {
                            keys.push(key);
                        }
                    }
                    self.delete_keys(collection, &keys).await?;
                }
                UndoStep::Replaced(document) => self.put_back(collection, &document).await?,
            }
        }
        Ok(())
    }

    /// Undoes everything that its transaction did since a savepoint, which remains.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](marmota_model::ErrorKind::Invalid) if no savepoint has this name;
    /// otherwise the reason why the transaction was aborted.
    pub(crate) async fn roll_back_to(&self, name: u32) -> Result<()> {
        let Some(transaction) = self.transaction() else { return Ok(()) };
        let steps = transaction.begin_undoing(name)?;
        transaction.end_undoing(self.undo_all(steps).await)
    }

    /// Undoes steps in reverse order.
    async fn undo_all(&self, mut steps: Vec<(String, UndoStep)>) -> Result<()> {
        while let Some((collection, _)) = steps.last() {
            let collection = collection.clone();
            let before = steps.iter().rposition(|(other, _)| *other != collection);
            let of_one = steps.split_off(before.map_or(0, |before| before + 1));
            let of_one = of_one.into_iter().map(|(_, step)| step).collect();
            self.undo(&collection, of_one).await?;
        }
        Ok(())
    }
}
