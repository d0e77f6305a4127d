/**
 * What the tests of the sandbox and of web pages need of the system, installed where that is possible without asking: as root on Debian or
 * Ubuntu. Elsewhere it is named; tests that need it fail, and those of web pages are skipped. Nothing here is needed to use the package
 * without untrusted code and web pages.
 */
import { spawnSync } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

const needs = [
  { name: "bubblewrap", package: "bubblewrap", found: () => onPath("bwrap") },
  { name: "prlimit", package: "util-linux", found: () => onPath("prlimit") },
  { name: "Python at /usr/bin/python3", package: "python3", found: () => runs("/usr/bin/python3", ["-c", ""]) },
  { name: "pytest for /usr/bin/python3", package: "python3-pytest", found: () => runs("/usr/bin/python3", ["-I", "-c", "import pytest"]) },
  // Without it the tests of pages are skipped.
  { name: "Chromium", package: "chromium", found: () => onPath("chromium") || onPath("google-chrome") },
];

function onPath(name) {
  return ["/usr/bin", "/usr/local/bin", "/bin", ...(process.env.PATH ?? "").split(delimiter)].some((folder) => {
    try {
      accessSync(join(folder, name), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

function runs(command, args) {
  return spawnSync(command, args, { stdio: "ignore" }).status === 0;
}

/** Installs what is missing if it can; says on stderr what it did or what remains missing. Never ends the process. */
export function systemPackages() {
  if (process.platform !== "linux") return;
  const missing = needs.filter(({ found }) => !found());
  if (missing.length === 0) return;
  const names = [...new Set(missing.map((need) => need.package))];
  if (process.getuid() === 0 && onPath("apt-get")) {
    process.stderr.write(`flywheel: installing ${names.join(", ")} with apt-get, for the tests ...\n`);
    const apt = ["-o", "DPkg::Lock::Timeout=600", "-qq"];
    const options = { stdio: ["ignore", "ignore", 2], env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" } };
    spawnSync("apt-get", [...apt, "update"], options);
    spawnSync("apt-get", [...apt, "install", "-y", "--no-install-recommends", ...names], options);
  }
  for (const need of needs.filter(({ found }) => !found())) {
    process.stderr.write(`flywheel: ${need.name} is missing; tests that need it will not pass: apt-get install ${need.package}\n`);
  }
}
