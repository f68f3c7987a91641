//! The figures of the tables, in the order of the columns.

/// One column of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Figure {
    /// One row per call, each committed separately.
    InsertOne,
    /// 500 rows per call, each call committed separately.
    InsertBatch,
    /// One row per call, all in one transaction.
    InsertTransaction,
    /// 500 rows per call, all in one transaction.
    InsertBatchTransaction,
    /// One object per call, ids in random order.
    ReadById,
    /// All rows in one call, into a `Vec` of objects.
    ListObjects,
    /// All rows in one call without objects: numbers and lengths of texts are added up.
    ListDirect,
}

impl Figure {
    /// All figures in the order of the tables.
    pub const ALL: [Self; 7] = [
        Self::InsertOne,
        Self::InsertBatch,
        Self::InsertTransaction,
        Self::InsertBatchTransaction,
        Self::ReadById,
        Self::ListObjects,
        Self::ListDirect,
    ];

    /// The name in the JSON lines and the column heading.
    pub fn name(self) -> &'static str {
        match self {
            Self::InsertOne => "insert one",
            Self::InsertBatch => "batch",
            Self::InsertTransaction => "transaction",
            Self::InsertBatchTransaction => "batch in transaction",
            Self::ReadById => "by id",
            Self::ListObjects => "list objects",
            Self::ListDirect => "list direct",
        }
    }

    /// Returns whether the figure inserts rows; the others read them.
    pub fn is_insert(self) -> bool {
        matches!(
            self,
            Self::InsertOne
                | Self::InsertBatch
                | Self::InsertTransaction
                | Self::InsertBatchTransaction
        )
    }

    /// Returns the figure with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|figure| figure.name() == name)
    }
}
