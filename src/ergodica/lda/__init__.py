"""Topic models on a stream of documents: online LDA by the general recipe."""
