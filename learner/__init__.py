"""The learner: advantages, batches, the loss, optimisation, published weights and checkpoints."""
