"""The processes of designers, curators, agents and evaluators, and the work on jobs that two of them share."""
