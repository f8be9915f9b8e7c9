"""Running worlds: parameters, shards, threads, records of a rollout and reports; nothing of the physics."""
