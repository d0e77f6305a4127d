/** Runs the main file of a program that was compiled to CommonJS. */
"use strict";
const { findModule, install, runMain } = require("./load.cjs");

install();
process.argv.length = 1;
process.argv.push("/job/main.js");
runMain(findModule("main"));
