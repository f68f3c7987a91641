//! The figures of the table, in its order.

/// One column of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Figure {
    /// One row a call, each durable by itself.
    InsertOne,
    /// 500 rows a call, each call durable by itself.
    InsertBatch,
    /// One row a call, all in one transaction.
    InsertTransaction,
    /// 500 rows a call, all in one transaction.
    InsertBatchTransaction,
    /// One object a call, ids in random order.
    ReadById,
    /// All rows in one call, into a `Vec` of objects.
    ListObjects,
    /// All rows in one call, columns only: numbers added up, texts measured, nothing kept.
    ListDirect,
}

impl Figure {
    /// All, in the order of the table.
    pub const ALL: [Self; 7] = [
        Self::InsertOne,
        Self::InsertBatch,
        Self::InsertTransaction,
        Self::InsertBatchTransaction,
        Self::ReadById,
        Self::ListObjects,
        Self::ListDirect,
    ];

    /// The word in the JSON lines and at the head of the column.
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

    /// Whether it writes; the others read what was written before.
    pub fn is_insert(self) -> bool {
        matches!(
            self,
            Self::InsertOne
                | Self::InsertBatch
                | Self::InsertTransaction
                | Self::InsertBatchTransaction
        )
    }

    /// The figure of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|figure| figure.name() == name)
    }
}
