"""The number of words that identify a command with its subcommand: `git status` has two, `npm run build` three, most
commands one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_TWO = """
    apt apt-get brew bun bundle cargo cdk composer conda dart deno docker dnf dotnet flutter flyctl gem git go gradle
    gradlew helm heroku ip just kubectl make mise mix mvn mvnw netlify nix npm nvm pip pip3 pipenv pipx pnpm podman
    poetry pulumi rails rustup sbt serverless skaffold snap stack supabase swift systemctl task terraform tofu turbo uv
    vagrant vercel volta wrangler yarn
"""
_THREE = """
    aws, az, bun run, bun x, conda env, deno task, docker buildx, docker compose, docker container, docker image,
    docker network, docker volume, gcloud, gh, git config, git remote, git stash, git worktree, glab, go mod, go tool,
    helm repo, ip addr, ip link, ip route, kubectl config, kubectl get, kubectl rollout, nix flake, npm exec, npm run,
    pip config, pnpm dlx, pnpm exec, pnpm run, podman compose, poetry run, rustup toolchain, swift package,
    terraform state, terraform workspace, uv pip, uv run, uv tool, yarn dlx, yarn run, yarn workspace
"""
_WORDS = {(name,): 2 for name in _TWO.split()} | {tuple(known.split()): 3 for known in _THREE.split(",")}
_LONGEST = max(map(len, _WORDS))


def arity(words: Sequence[str]) -> int:
    """Uses the longest known prefix of the words."""
    for size in range(_LONGEST, 0, -1):
        if (count := _WORDS.get(tuple(words[:size]))) is not None:
            return count
    return 1
