/** Runs one file of the candidate as a program, with its arguments. */
"use strict";
const { install, runMain } = require("./load.cjs");

install();
process.argv.splice(1, 1);
runMain(process.argv[1]);
